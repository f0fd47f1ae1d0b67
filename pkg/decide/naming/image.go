package naming

import (
	"regexp"
	"strings"
)

// ImageIn returns the name of an image in a registry. An image of Docker Hub or without a registry moves into it; an
// image of another registry is unchanged. An empty registry changes nothing.
func ImageIn(registry, image string) string {
	registry = strings.TrimRight(registry, "/")
	if registry == "" || strings.HasPrefix(image, registry+"/") {
		return image
	}
	host, rest := RegistryOf(image)
	if host != dockerHub {
		return image
	}
	return registry + "/" + rest
}

// registryName matches the part before an image's name: a host with an optional port and an optional path.
var registryName = regexp.MustCompile(`^(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]{1,5})?(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*$`)

// RegistryForm is the requirement of IsRegistry, to follow the name of a field in a message.
const RegistryForm = "must be a host, with a port and a path where the registry has them, and without a scheme such as https:// or a user, for example registry.example.com:5000"

// IsRegistry reports whether a registry of that name can contain images. Parsers of image references are lenient: they
// read https://registry.example.com/… as a host named https, and only nodes would notice.
func IsRegistry(name string) bool { return registryName.MatchString(strings.TrimRight(name, "/")) }

// dockerHub is the registry of images that name none.
const dockerHub = "docker.io"

// RegistryOf returns the registry of an image, and the image's name in it.
func RegistryOf(image string) (registry, rest string) {
	host, rest, named := strings.Cut(image, "/")
	switch {
	case named && (host == dockerHub || host == "index.docker.io"):
		return dockerHub, rest
	case named && (strings.ContainsAny(host, ".:") || host == "localhost"):
		return host, rest
	default:
		return dockerHub, image
	}
}

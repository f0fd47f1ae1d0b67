package naming

import (
	"regexp"
	"strings"
)

// ImageIn names an image in a registry: an image of Docker Hub, or without a registry, moves into it, one of another registry stays where it
// is. An empty registry changes nothing.
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

// registryName is what stands before the name of an image: a host, maybe with a port, and maybe with a path.
var registryName = regexp.MustCompile(`^(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]{1,5})?(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*$`)

// RegistryForm says what IsRegistry wants, after the name of a field.
const RegistryForm = "must be a host, with a port and a path where the registry has them, and without a scheme such as https:// or a user, for example registry.example.com:5000"

// IsRegistry reports that images can be in a registry of that name. References to images are read loosely: https://registry.example.com before one
// passes for a host named https, and only nodes find out.
func IsRegistry(name string) bool { return registryName.MatchString(strings.TrimRight(name, "/")) }

// dockerHub is the registry of images that name none.
const dockerHub = "docker.io"

// RegistryOf returns the registry that an image comes from, and what it is called there.
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

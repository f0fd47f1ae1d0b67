package naming

import (
	"encoding/json"
	"regexp"
	"strings"
)

// ImageIn returns the name of an image in a registry. An image of Docker Hub or without a registry moves into it; an
// image of another registry is unchanged. An empty registry changes nothing.
func ImageIn(registry, image string) string {
	registry = strings.TrimRight(registry, "/")
	if registry == "" || InRegistry(registry, image) {
		return image
	}
	host, rest := RegistryOf(image)
	if host != dockerHub {
		return image
	}
	return registry + "/" + rest
}

// registryName matches the part before an image's name: a host with an optional port and an optional path.
var registryName = regexp.MustCompile(
	`^(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]{1,5})?(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*$`)

// RegistryForm is the requirement of IsRegistry, to follow the name of a field in a message.
const RegistryForm = "must be a host, optionally with a port and a path, and without a scheme such as https:// or a " +
	"user, for example registry.example.com:5000"

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

// InRegistry reports whether an image comes from a registry, which may have a path. No image comes from an empty
// registry.
//
// It and ListsRegistry decide which pull Secrets go with an image. A Secret that is copied into a tenant's namespace or
// into a cluster can be read there. Therefore it goes only with images of its own registries.
func InRegistry(registry, image string) bool {
	registry = strings.TrimRight(registry, "/")
	return registry != "" && strings.HasPrefix(image, registry+"/")
}

// ListsRegistry reports whether a Secret of type kubernetes.io/dockerconfigjson has an entry for an image's registry.
// If an entry has a path, the image's path must begin with it. Patterns are not supported.
func ListsRegistry(dockerConfigJSON []byte, image string) bool {
	var config struct {
		Auths map[string]json.RawMessage `json:"auths"`
	}
	if json.Unmarshal(dockerConfigJSON, &config) != nil {
		return false
	}
	registry, path := RegistryOf(image)
	for entry := range config.Auths {
		host, below := registryOfEntry(entry)
		if host == registry && (below == "" || strings.HasPrefix(path, below+"/")) {
			return true
		}
	}
	return false
}

// registryOfEntry returns an entry without the scheme and without the version of the registry's API.
func registryOfEntry(entry string) (host, path string) {
	for _, scheme := range []string{"https://", "http://"} {
		entry = strings.TrimPrefix(entry, scheme)
	}
	host, path, _ = strings.Cut(strings.TrimRight(entry, "/"), "/")
	if path == "v1" || path == "v2" {
		path = ""
	}
	if host == "index.docker.io" {
		host = dockerHub
	}
	return host, path
}

package naming

import "strings"

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

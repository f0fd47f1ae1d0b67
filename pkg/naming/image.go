package naming

import "strings"

// ImageIn names an image in a registry: an image of Docker Hub, or without a registry, moves into it, one of another registry stays where it
// is. An empty registry changes nothing.
func ImageIn(registry, image string) string {
	registry = strings.TrimRight(registry, "/")
	if registry == "" || strings.HasPrefix(image, registry+"/") {
		return image
	}
	host, rest, named := strings.Cut(image, "/")
	switch {
	case named && (host == "docker.io" || host == "index.docker.io"):
		image = rest
	case named && (strings.ContainsAny(host, ".:") || host == "localhost"):
		return image
	}
	return registry + "/" + image
}

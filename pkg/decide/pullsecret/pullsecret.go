// Package pullsecret decides which pull Secrets go with an image. A Secret that is copied into a tenant's namespace or
// into a cluster can be read there. Therefore it goes only with images of its own registries.
package pullsecret

import (
	"encoding/json"
	"strings"

	"github.com/drover-io/drover/pkg/decide/naming"
)

// In reports whether an image comes from a registry, which may have a path. No image comes from an empty registry.
func In(registry, image string) bool {
	registry = strings.TrimRight(registry, "/")
	return registry != "" && strings.HasPrefix(image, registry+"/")
}

// Lists reports whether a Secret of type kubernetes.io/dockerconfigjson has an entry for an image's registry. If an
// entry has a path, the image's path must begin with it. Patterns are not supported.
func Lists(dockerConfigJSON []byte, image string) bool {
	var config struct {
		Auths map[string]json.RawMessage `json:"auths"`
	}
	if json.Unmarshal(dockerConfigJSON, &config) != nil {
		return false
	}
	registry, path := naming.RegistryOf(image)
	for entry := range config.Auths {
		host, below := normal(entry)
		if host == registry && (below == "" || strings.HasPrefix(path, below+"/")) {
			return true
		}
	}
	return false
}

// normal is an entry without the scheme and without the version of the registry's API.
func normal(entry string) (host, path string) {
	for _, scheme := range []string{"https://", "http://"} {
		entry = strings.TrimPrefix(entry, scheme)
	}
	host, path, _ = strings.Cut(strings.TrimRight(entry, "/"), "/")
	if path == "v1" || path == "v2" {
		path = ""
	}
	if host == "index.docker.io" {
		host = "docker.io"
	}
	return host, path
}

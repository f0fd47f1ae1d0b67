// Package pullsecret says which Secrets images may be pulled with. A Secret that goes along into the namespace of a tenant or into a cluster is read
// there, so none goes along with an image of a registry that it is not for.
package pullsecret

import (
	"encoding/json"
	"strings"

	"github.com/drover-io/drover/pkg/decide/naming"
)

// In reports whether an image comes from a registry, which may have a path. No image comes from an empty one.
func In(registry, image string) bool {
	registry = strings.TrimRight(registry, "/")
	return registry != "" && strings.HasPrefix(image, registry+"/")
}

// Lists reports whether the content of a Secret of type kubernetes.io/dockerconfigjson has an entry for the registry that an image comes from. Entries
// may have a path, which the image's then has to begin with; patterns are none.
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

// normal is an entry without what Docker writes around it: the scheme, and the version of the registry's API.
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

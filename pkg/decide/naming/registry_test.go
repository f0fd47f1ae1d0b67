package naming_test

import (
	"testing"

	"github.com/drover-io/drover/pkg/decide/naming"
)

func TestIsRegistry(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"registry.example.com": true, "registry.example.com:5000": true, "registry.example.com/": true,
		"localhost:5000/mirror/of_all": true,
		"10.0.0.1:5000":                true, "[fd00::1]:5000": true, "Registry.Example.com": true, "r/a--b": true,
		"": false, "https://registry.example.com": false, "http://10.0.0.1:5000": false,
		"me:secret@registry.example.com": false, "registry.example.com:port": false,
		"registry.example.com/Mirror": false, "registry.example.com//mirror": false, "a b": false, "-a": false,
		"registry.example.com?a=b": false,
	} {
		if got := naming.IsRegistry(name); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}

func TestIsServerURL(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"https://drover.example.com": true, "https://10.0.0.1:8443": true, "https://[fd00::1]:8443": true,
		"": false, "drover.example.com": false, "http://drover.example.com": false, "https://": false,
		"https://drover.example.com/": false, "https://a b": false,
	} {
		if got := naming.IsServerURL(address); got != want {
			t.Errorf("%q: %v, want %v", address, got, want)
		}
	}
}

func TestInRegistry(t *testing.T) {
	for name, test := range map[string]struct {
		registry, image string
		want            bool
	}{
		"in the registry":                    {"r.example.com", "r.example.com/drover-io/drover:v1", true},
		"in the registry, with a slash":      {"r.example.com/", "r.example.com/drover-io/drover:v1", true},
		"below its path":                     {"r.example.com/a", "r.example.com/a/drover:v1", true},
		"outside of its path":                {"r.example.com/a", "r.example.com/ab/drover:v1", false},
		"in a registry with the same prefix": {"r.example.com", "r.example.com.evil.org/drover:v1", false},
		"in another registry":                {"r.example.com", "quay.io/drover:v1", false},
		"on Docker Hub, without a name":      {"r.example.com", "drover-io/drover:v1", false},
		"of no registry":                     {"", "drover-io/drover:v1", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := naming.InRegistry(test.registry, test.image); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestListsRegistry(t *testing.T) {
	const image = "r.example.com:5000/drover-io/drover:v1"
	for name, test := range map[string]struct {
		content, image string
		want           bool
	}{
		"its registry":                   {`{"auths":{"r.example.com:5000":{"auth":"eA=="}}}`, image, true},
		"its registry, in Docker's form": {`{"auths":{"https://r.example.com:5000/v2/":{}}}`, image, true},
		"its path":                       {`{"auths":{"r.example.com:5000/drover-io":{}}}`, image, true},
		"another path":                   {`{"auths":{"r.example.com:5000/drover":{}}}`, image, false},
		"another port":                   {`{"auths":{"r.example.com":{}}}`, image, false},
		"one of several":                 {`{"auths":{"quay.io":{},"r.example.com:5000":{}}}`, image, true},
		"another registry":               {`{"auths":{"quay.io":{}}}`, image, false},
		"Docker Hub, without a name":     {`{"auths":{"https://index.docker.io/v1/":{}}}`, "rancher/machine:v1", true},
		"Docker Hub, by its name":        {`{"auths":{"docker.io":{}}}`, "docker.io/rancher/machine:v1", true},
		"an image without a user":        {`{"auths":{"docker.io":{}}}`, "busybox", true},
		"nothing":                        {`{"auths":{}}`, image, false},
		"not JSON":                       {`x`, image, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := naming.ListsRegistry([]byte(test.content), test.image); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

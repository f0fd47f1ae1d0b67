package naming_test

import (
	"testing"

	"github.com/drover-io/drover/pkg/decide/naming"
)

func TestIsRegistry(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"registry.example.com": true, "registry.example.com:5000": true, "registry.example.com/": true, "localhost:5000/mirror/of_all": true,
		"10.0.0.1:5000": true, "[fd00::1]:5000": true, "Registry.Example.com": true, "r/a--b": true,
		"": false, "https://registry.example.com": false, "http://10.0.0.1:5000": false, "me:secret@registry.example.com": false, "registry.example.com:port": false,
		"registry.example.com/Mirror": false, "registry.example.com//mirror": false, "a b": false, "-a": false, "registry.example.com?a=b": false,
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
		"": false, "drover.example.com": false, "http://drover.example.com": false, "https://": false, "https://drover.example.com/": false, "https://a b": false,
	} {
		if got := naming.IsServerURL(address); got != want {
			t.Errorf("%q: %v, want %v", address, got, want)
		}
	}
}

package driverschema_test

import (
	"strings"
	"testing"

	"github.com/drover-io/drover/pkg/decide/driverschema"
)

func TestCheckSource(t *testing.T) {
	const https = "https://files.example.com/docker-machine-driver-x"
	sum, address := []string{"spec.checksum"}, []string{"spec.url"}
	for name, test := range map[string]struct {
		url, checksum string
		want          []string
	}{
		"a driver of rancher-machine":   {url: "local://"},
		"SHA-256":                       {url: https, checksum: strings.Repeat("a", 64)},
		"SHA-512 with capitals":         {url: "HTTPS://x/y", checksum: strings.Repeat("A", 128)},
		"spaces around the checksum":    {url: https, checksum: " " + strings.Repeat("a", 64) + "\n"},
		"no checksum":                   {url: https, want: sum},
		"MD5":                           {url: https, checksum: strings.Repeat("a", 32), want: sum},
		"SHA-1":                         {url: https, checksum: strings.Repeat("a", 40), want: sum},
		"no hexadecimal number":         {url: https, checksum: strings.Repeat("x", 64), want: sum},
		"http":                          {url: "http://x/y", checksum: strings.Repeat("a", 64), want: address},
		"no host":                       {url: "https:///y", checksum: strings.Repeat("a", 64), want: address},
		"http and no checksum are both": {url: "http://x/y", want: []string{"spec.url", "spec.checksum"}},
	} {
		err := driverschema.CheckSource(test.url, test.checksum)
		if (err != nil) != (len(test.want) > 0) {
			t.Errorf("%s: %v", name, err)
		}
		for _, field := range test.want {
			if !strings.Contains(err.Error(), field+": must be") ||
				!strings.Contains(err.Error(), "--insecure-node-drivers") {
				t.Errorf("%s: error %q does not say how to correct %s", name, err, field)
			}
		}
	}
}

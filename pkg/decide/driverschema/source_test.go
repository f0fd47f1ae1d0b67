package driverschema_test

import (
	"strings"
	"testing"

	"github.com/drover-io/drover/pkg/decide/driverschema"
)

func TestCheckSource(t *testing.T) {
	const address = "https://files.example.com/docker-machine-driver-x"
	for name, test := range map[string]struct {
		url, checksum string
		want          []string
	}{
		"a driver of rancher-machine":   {url: "local://"},
		"SHA-256":                       {url: address, checksum: strings.Repeat("a", 64)},
		"SHA-512 with capitals":         {url: "HTTPS://x/y", checksum: strings.Repeat("A", 128)},
		"spaces around the checksum":    {url: address, checksum: " " + strings.Repeat("a", 64) + "\n"},
		"no checksum":                   {url: address, want: []string{"spec.checksum"}},
		"MD5":                           {url: address, checksum: strings.Repeat("a", 32), want: []string{"spec.checksum"}},
		"SHA-1":                         {url: address, checksum: strings.Repeat("a", 40), want: []string{"spec.checksum"}},
		"no hexadecimal number":         {url: address, checksum: strings.Repeat("x", 64), want: []string{"spec.checksum"}},
		"http":                          {url: "http://x/y", checksum: strings.Repeat("a", 64), want: []string{"spec.url"}},
		"no host":                       {url: "https:///y", checksum: strings.Repeat("a", 64), want: []string{"spec.url"}},
		"http and no checksum are both": {url: "http://x/y", want: []string{"spec.url", "spec.checksum"}},
	} {
		err := driverschema.CheckSource(test.url, test.checksum)
		if (err != nil) != (len(test.want) > 0) {
			t.Errorf("%s: %v", name, err)
		}
		for _, field := range test.want {
			if !strings.Contains(err.Error(), field+": must be") || !strings.Contains(err.Error(), "--insecure-node-drivers") {
				t.Errorf("%s: error %q does not say how to correct %s", name, err, field)
			}
		}
	}
}

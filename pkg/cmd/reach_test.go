package cmd

import (
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
)

func TestOptions_ClusterAccessVerb(t *testing.T) {
	for verb, want := range map[string]bool{"": false, "get": true, "proxy": true, "*": false, "Get": false,
		"get list": false} {
		o, err := parse(t, []string{"--cluster-access-verb=" + verb, "--server-url=https://drover.example.com",
			"--instance-id=i"}, nil)
		check(t, err)
		if err := o.check(); (err == nil) != want || err != nil &&
			!strings.Contains(err.Error(), "--cluster-access-verb: ") {
			t.Errorf("%q: got %v", verb, err)
		}
		options, err := o.serverOptions(t.Context(), nil, logrus.New())
		check(t, err)
		if options.Reach.Verb != verb {
			t.Errorf("%q: the server requires %q", verb, options.Reach.Verb)
		}
	}
}

func TestOptions_EndpointTokenLife(t *testing.T) {
	for life, want := range map[string]bool{"12h": true, "10m": true, "168h": true, "9m": false, "169h": false,
		"0": false} {
		o, err := parse(t, []string{"--endpoint-token-life=" + life, "--server-url=https://drover.example.com",
			"--instance-id=i"}, nil)
		check(t, err)
		if err := o.check(); (err == nil) != want || err != nil &&
			!strings.Contains(err.Error(), "--endpoint-token-life: must be from 10m0s") {
			t.Errorf("%q: got %v", life, err)
		}
		options, err := o.serverOptions(t.Context(), nil, logrus.New())
		check(t, err)
		if asked, err := time.ParseDuration(life); err != nil || options.Reach.EndpointTokenLife != asked {
			t.Errorf("%q: tokens are valid for %s", life, options.Reach.EndpointTokenLife)
		}
	}
}

// An invalid registry is refused before anything starts.
func TestOptions_SystemDefaultRegistry(t *testing.T) {
	for registry, want := range map[string]string{
		"": "", "registry.example.com:5000/mirror": "",
		"https://registry.example.com":    `"https://registry.example.com"`,
		"me:hunter2@registry.example.com": `"registry.example.com"`,
	} {
		o, err := parse(t, []string{"--system-default-registry=" + registry, "--server-url=https://drover.example.com"},
			nil)
		check(t, err)
		err = o.check()
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), "--system-default-registry: "+
			want+" must be a host") {
			t.Errorf("%q: got %v", registry, err)
		}
	}
}

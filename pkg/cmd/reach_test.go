package cmd

import (
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
)

func TestOptions_ClusterAccessVerb(t *testing.T) {
	for verb, want := range map[string]bool{"": false, "get": true, "proxy": true, "*": false, "Get": false, "get list": false} {
		o, err := parse(t, []string{"--cluster-access-verb=" + verb, "--server-url=https://drover.example.com", "--instance-id=i"}, nil)
		check(t, err)
		if err := o.check(); (err == nil) != want || err != nil && !strings.Contains(err.Error(), "--cluster-access-verb: ") {
			t.Errorf("%q: got %v", verb, err)
		}
		options, err := o.serverOptions(t.Context(), nil, logrus.New())
		check(t, err)
		if options.Reach.Verb != verb {
			t.Errorf("%q: the server asks for %q", verb, options.Reach.Verb)
		}
	}
}

func TestOptions_EndpointTokenLife(t *testing.T) {
	for life, want := range map[string]bool{"12h": true, "10m": true, "168h": true, "9m": false, "169h": false, "0": false} {
		o, err := parse(t, []string{"--endpoint-token-life=" + life, "--server-url=https://drover.example.com", "--instance-id=i"}, nil)
		check(t, err)
		if err := o.check(); (err == nil) != want || err != nil && !strings.Contains(err.Error(), "--endpoint-token-life: must be from 10m0s") {
			t.Errorf("%q: got %v", life, err)
		}
		options, err := o.serverOptions(t.Context(), nil, logrus.New())
		check(t, err)
		if asked, err := time.ParseDuration(life); err != nil || options.Reach.EndpointTokenLife != asked {
			t.Errorf("%q: tokens are good for %s", life, options.Reach.EndpointTokenLife)
		}
	}
}

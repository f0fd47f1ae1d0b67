package cmd

import (
	"strings"
	"testing"

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

package cmd

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	logtest "github.com/sirupsen/logrus/hooks/test"
)

func TestShares(t *testing.T) {
	for _, tt := range []struct {
		name  string
		limit int
		// story lists addresses that enter, and those that leave with a minus, separated by commas.
		story string
		// want are the addresses that may not enter.
		want []string
	}{
		{name: "one address gets half", limit: 10, story: "a,a,a,a,a,a,a", want: []string{"a", "a"}},
		{name: "another one still enters", limit: 10, story: "a,a,a,a,a,a,b,b", want: []string{"a"}},
		{name: "two addresses get two thirds", limit: 9, story: "a,b,a,b,a,b,a,b", want: []string{"a", "b"}},
		{name: "what leaves is free again", limit: 4, story: "a,a,a,-a,a", want: []string{"a"}},
		{name: "many addresses get everything", limit: 3, story: "a,b,c,d", want: []string{"d"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newShares(tt.limit)
			held := map[string][]func(){}
			var refused []string
			for step := range strings.SplitSeq(tt.story, ",") {
				name, leaves := strings.CutPrefix(step, "-")
				address := addressOf("10.0.0." + string('0'+name[0]-'a') + ":1000")
				if leaves {
					held[name][0]()
					held[name] = held[name][1:]
				} else if leave, ok := s.enter(address); ok {
					held[name] = append(held[name], leave)
				} else {
					refused = append(refused, name)
				}
			}
			if diff := cmp.Diff(tt.want, refused); diff != "" {
				t.Errorf("refused addresses (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAddressOf(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1:4711":              "192.0.2.1/32",
		"[::ffff:192.0.2.1]:4711":     "192.0.2.1/32",
		"[2001:db8:0:1:2:3:4:5]:4711": "2001:db8:0:1::/64",
		"[fe80::1%eth0]:4711":         "fe80::/64",
		"@":                           "invalid Prefix",
	} {
		if got := addressOf(address).String(); got != want {
			t.Errorf("%s counts as %s, want %s", address, got, want)
		}
	}
}

func TestConnections_FitIntoOpenFiles(t *testing.T) {
	for _, tt := range []struct {
		files        uint64
		wanted, want int64
		warns        bool
	}{
		{files: 1 << 20, wanted: 10_000, want: 10_000},
		{files: 1024, wanted: 10_000, want: 768, warns: true},
		{files: 1024, wanted: 500, want: 500},
		{files: 1<<64 - 1, wanted: 10_000, want: 10_000},
	} {
		log, hook := logtest.NewNullLogger()
		if got := fitting(tt.wanted, tt.files, log); got != tt.want || (len(hook.Entries) > 0) != tt.warns {
			t.Errorf("with %d files, %d of %d connections and %d warnings", tt.files, got, tt.wanted, len(hook.Entries))
		}
	}
}

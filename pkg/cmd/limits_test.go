package cmd

import (
	"strings"
	"testing"
)

func TestLimits_OfFlagsAndTheFile(t *testing.T) {
	for _, tt := range []struct {
		name, file, wantError string
		args                  []string
		requests, long        int64
	}{
		{name: "the flag has a list", args: []string{"--limits", "proxy-requests=8, proxy-long-requests=2Ki"},
			requests: 8, long: 2048},
		{name: "a repeated flag adds", args: []string{"--limits=proxy-requests=8", "--limits=proxy-long-requests=9"},
			requests: 8, long: 9},
		{name: "the file has a map", file: "limits: {proxy-requests: 2097152, proxy-long-requests: 2Ki}\n",
			requests: 2 << 20, long: 2048},
		{name: "a name without a number is refused", args: []string{"--limits", "proxy-requests"},
			wantError: "NAME=NUMBER"},
		{name: "an unknown name in the file is refused", file: "limits: {requests: 1}\n",
			wantError: `--limits: invalid argument "requests=1"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.file != "" {
				tt.args = append(tt.args, "--config", write(t, "config.yaml", tt.file))
			}
			o, err := parse(t, tt.args, nil)
			if tt.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantError) {
					t.Fatalf("error is %v, want one with %q", err, tt.wantError)
				}
				return
			}
			check(t, err)
			if o.limits.ProxyRequests != tt.requests || o.limits.ProxyLongRequests != tt.long {
				t.Errorf("limits are %+v, want %d and %d", o.limits, tt.requests, tt.long)
			}
		})
	}
}

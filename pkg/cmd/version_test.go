package cmd

import (
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestVersion_Formats(t *testing.T) {
	t.Parallel()
	goVersion, platform := runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH
	for name, tc := range map[string]struct {
		args []string
		want string
		code int
	}{
		"the command": {args: []string{"version"}, want: "drover dev\n"},
		"the flag":    {args: []string{"--version"}, want: "drover dev\n"},
		"JSON": {args: []string{"version", "-o", "json"},
			want: "{\n  \"version\": \"dev\",\n  \"goVersion\": \"" + goVersion + "\",\n  \"platform\": \"" + platform +
				"\"\n}\n"},
		"YAML": {args: []string{"version", "-o", "yaml"}, want: "goVersion: " + goVersion +
			"\nplatform: " + platform + "\nversion: dev\n"},
		"an unknown format": {args: []string{"version", "-o", "table"}, code: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, problems := runWith([]string{"DROVER_OUTPUT=tree"}, tc.args...)
			if diff := cmp.Diff(tc.want, out); diff != "" || code != tc.code {
				t.Errorf("exit code %d, %s (-want +got):\n%s", code, problems, diff)
			}
		})
	}
}

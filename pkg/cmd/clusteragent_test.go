package cmd

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/pkg/reach/clusteragent"
)

// TestClusterAgent_SourcesOfOptions: flags take precedence over the manifest's environment, and the environment over
// the manifest's files.
func TestClusterAgent_SourcesOfOptions(t *testing.T) {
	folder := t.TempDir()
	check(t, os.WriteFile(filepath.Join(folder, "url"), []byte("https://of-file\n"), 0o600))
	pod := []string{"KUBERNETES_SERVICE_HOST=fd00::1", "KUBERNETES_SERVICE_PORT=443"}
	for name, c := range map[string]struct {
		given   clusteragent.Options
		environ []string
		folder  string
		want    string
		problem string
	}{
		"a pod of the manifest": {environ: append(pod, "CATTLE_SERVER=https://of-environment",
			"CATTLE_CA_CHECKSUM=abc"), want: "https://of-environment abc https://[fd00::1]:443"},
		"files alone": {environ: pod, folder: folder, want: "https://of-file  https://[fd00::1]:443"},
		"flags come first": {given: clusteragent.Options{ServerURL: "https://flag", CAChecksum: "def",
			APIServer: "https://api"}, environ: append(pod, "CATTLE_SERVER=https://x", "CATTLE_CA_CHECKSUM=abc"),
			want: "https://flag def https://api"},
		"without a server URL": {environ: pod, problem: "--server-url: is required"},
		"without an API server": {given: clusteragent.Options{ServerURL: "https://flag"},
			problem: "--api-server: is required outside a pod"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &clusterAgentOptions{Options: c.given}
			err := o.fromManifest(c.environ, c.folder+"/")
			if c.problem != "" {
				if err == nil || !strings.HasPrefix(err.Error(), c.problem) {
					t.Errorf("error %v, want %s", err, c.problem)
				}
				return
			}
			check(t, err)
			if diff := cmp.Diff(c.want, o.ServerURL+" "+o.CAChecksum+" "+o.APIServer); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestClusterAgent_EndsOnInvalidOptions: the program ends and names the wrong field. By then GOMAXPROCS is small,
// unless the environment sets it.
func TestClusterAgent_EndsOnInvalidOptions(t *testing.T) {
	for name, c := range map[string]struct {
		environ    []string
		processors int
	}{
		"without variables": {nil, smallProcessors},
		"larger, please":    {[]string{"GOMAXPROCS=7"}, 7},
	} {
		t.Run(name, func(t *testing.T) {
			stayLarge(t, 7, 100)
			code, _, problems := runOne(newClusterAgentCommand(c.environ), "--server-url=http://plain",
				"--api-server=https://api", "--health-address=")
			if code != 1 || !strings.Contains(problems, "ServerURL") {
				t.Errorf("exit code %d, %q", code, problems)
			}
			if got := runtime.GOMAXPROCS(0); got != c.processors {
				t.Errorf("GOMAXPROCS is %d, want %d", got, c.processors)
			}
		})
	}
}

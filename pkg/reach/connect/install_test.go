package connect

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/mock/gomock"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// again is the environment for installing over an earlier installation.
func again(root string) []string {
	return []string{
		"CATTLE_AGENT_CONFIG_DIR=" + root + "/etc", "CATTLE_AGENT_VAR_DIR=" + root + "/var",
		"CATTLE_AGENT_BIN_PREFIX=" + root + "/usr",
		"CATTLE_AGENT_SYSTEMD_DIR=" + root + "/units",
	}
}

// inventory returns the modification time and content of every installed file.
func inventory(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, dir := range []string{"etc", "var", "usr", "units"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			info, err := entry.Info()
			if err != nil {
				return err
			}
			content, err := os.ReadFile(path)
			out[path] = info.ModTime().String() + " " + info.Mode().String() + " " + string(content)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// installed returns a machine with an installed, running agent.
func installed(t *testing.T) (root string) {
	t.Helper()
	w := newWorld(t)
	w.expectIntroduction()
	output, root, err := install(t, w, InstallScript())
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return root
}

// impatient is the script without its long retries.
func impatient() string {
	return strings.NewReplacer("TRIES=4500", "TRIES=2", "PAUSE=5", "PAUSE=0").Replace(InstallScript())
}

// systemctlCalls are the calls of systemctl during an installation that change something.
func systemctlCalls(t *testing.T, root string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "systemctl.log"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(data), "is-active drover-host-cleanup\n", "")
}

// TestInstallScript_FailedSecondRunChangesNothing: a failed second registration leaves the node and its agent
// unchanged.
func TestInstallScript_FailedSecondRunChangesNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		environment []string
		patches     int
		want        string
	}{
		"an invalid token": {environment: []string{"CATTLE_TOKEN=expired"}, want: "answered 401"},
		"an unavailable server": {environment: []string{"CATTLE_SERVER=https://127.0.0.1:1"},
			want: "gave up asking"},
		"a damaged agent": {environment: []string{"CATTLE_AGENT_BINARY_CHECKSUM=" + strings.Repeat("0", 64)},
			want: "download has SHA-256"},
		"a server that answers 503": {patches: 2, want: "answered 503"},
	} {
		t.Run(name, func(t *testing.T) {
			root := installed(t)
			before := inventory(t, root)
			w := newWorld(t)
			w.machineClient.EXPECT().Patch("ns", "m", gomock.Any(), gomock.Any()).Times(tc.patches).DoAndReturn(
				func(_, _ string, _ types.PatchType, _ []byte, _ ...string) (*clusterv1.Machine, error) {
					if _, err := os.Stat(filepath.Join(root, "var", "interlock", "restart-pending")); err == nil {
						t.Error("the agent stops before the server answers")
					}
					return nil, apierrors.NewConflict(schema.GroupResource{}, "m", nil)
				})
			output, second, err := install(t, w, impatient(), append(again(root), tc.environment...)...)
			if err == nil || !strings.Contains(output, tc.want) {
				t.Fatalf("%v, want %q in:\n%s", err, tc.want, output)
			}
			after := inventory(t, root)
			// The same identity is written again before the server is contacted.
			id := filepath.Join(root, "etc", "cattle-id")
			_, kept := after[id]
			if delete(after, id); !kept {
				t.Error("the identity was lost")
			}
			delete(before, id)
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("the machine was changed (-before +after):\n%s", diff)
			}
			if calls := systemctlCalls(t, second); calls != "" {
				t.Errorf("systemd got: %s", calls)
			}
		})
	}
}

// TestInstallScript_SecondRunReplacesTheAgent: after a successful second registration, one restart replaces the agent,
// once its current plan is applied.
func TestInstallScript_SecondRunReplacesTheAgent(t *testing.T) {
	root := installed(t)
	before := inventory(t, root)
	active := filepath.Join(root, "var", "interlock", "applyinator-active")
	if err := os.WriteFile(active, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.expectIntroduction()
	output, second, err := install(t, w, impatient(), again(root)...)
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	if !strings.Contains(output, "Waiting for the plan that is being applied") {
		t.Errorf("the script did not wait for the running plan:\n%s", output)
	}
	calls := systemctlCalls(t, second)
	if want := "daemon-reload\nenable rancher-system-agent\nrestart rancher-system-agent\n"; strings.Count(calls,
		"restart") != 1 || !strings.HasSuffix(calls, want) || strings.Contains(calls, "stop") {
		t.Errorf("systemd got: %s", calls)
	}
	if err := os.Remove(active); err != nil {
		t.Fatal(err)
	}
	after := inventory(t, root)
	if len(after) != len(before) {
		t.Errorf("files before %d, after %d", len(before), len(after))
	}
	for path, was := range before {
		if after[path] == was {
			t.Errorf("%s was not replaced", path)
		}
	}
}

package agent

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"

	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// The agent reports its version with the plan, notes its first report, and reports the result of an upgrade. An idle
// agent writes nothing.
func TestRemote_ReportsItsVersion(t *testing.T) {
	r, client := newTestRemote(t, secretData(echoPlan))
	r.extras.upgrades = upgrades{dir: filepath.Join(t.TempDir(), "upgrade"), version: "v2"}
	r.pass(t.Context())
	data := stored(t, client)
	if got := string(data[nodeplan.KeyAgentVersion]); got != "v2" {
		t.Errorf("version %q", got)
	}
	if _, reported := data[nodeplan.KeyAgentUpgrade]; reported {
		t.Error("a result without an upgrade")
	}
	noted, err := os.ReadFile(filepath.Join(r.extras.upgrades.dir, reportedName))
	if want := strconv.Itoa(os.Getpid()) + " v2\n"; err != nil || string(noted) != want {
		t.Errorf("noted %q, %v, want %q", noted, err, want)
	}
	writes := len(client.Actions())
	if r.pass(t.Context()); len(client.Actions()) != writes {
		t.Errorf("an idle pass writes: %v", client.Actions()[writes:])
	}
	for text, want := range map[string]string{
		"id succeeded\n":        "id succeeded",
		"id failed: a reason\n": "id failed: a reason",
		"nonsense":              "id failed: a reason",
		"id failed: " + strings.Repeat("x", 1000): "id failed: " + strings.Repeat("x", maxUpgradeResult-11),
	} {
		if text == "nonsense" {
			r.current.Data[nodeplan.KeyAgentUpgrade] = []byte(want)
		}
		if err := os.WriteFile(filepath.Join(r.extras.upgrades.dir, resultName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r.pass(t.Context())
		if got := string(r.current.Data[nodeplan.KeyAgentUpgrade]); got != want {
			t.Errorf("result %q is reported as %q", text, got)
		}
	}
}

// A report that the server refuses is not noted.
func TestRemote_NotesOnlyAReportThatWasStored(t *testing.T) {
	r, client := newTestRemote(t, nil)
	r.extras.upgrades = upgrades{dir: t.TempDir(), version: "v2"}
	r.pass(t.Context())
	if _, err := os.Stat(filepath.Join(r.extras.upgrades.dir, reportedName)); err == nil || len(client.Actions()) > 0 {
		t.Errorf("noted without a report, %v", client.Actions())
	}
}

// An older server may forbid the version, or drop it. The agent reports everything else, and does not try again.
func TestRemote_AServerThatDoesNotKnowTheVersion(t *testing.T) {
	for name, forbids := range map[string]bool{"forbids it": true, "drops it": false} {
		t.Run(name, func(t *testing.T) {
			r, client := newTestRemote(t, secretData(echoPlan))
			r.extras.upgrades = upgrades{dir: t.TempDir(), version: "v2"}
			writes := 0
			client.PrependReactor("update", "secrets", func(action k8stesting.Action) (bool, runtime.Object, error) {
				writes++
				secret := action.(k8stesting.UpdateAction).GetObject().(*corev1.Secret)
				if _, has := secret.Data[nodeplan.KeyAgentVersion]; has && forbids {
					return true, nil, apierrors.NewForbidden(corev1.Resource("secrets"), "p", nil)
				}
				delete(secret.Data, nodeplan.KeyAgentVersion)
				return false, nil, nil
			})
			r.pass(t.Context())
			if got := string(stored(t, client)[nodeplan.KeySuccessCount]); got != "1" {
				t.Errorf("success count %q", got)
			}
			before := writes
			if r.pass(t.Context()); writes != before {
				t.Errorf("an idle pass writes %d times", writes-before)
			}
		})
	}
}

func TestSetConnection(t *testing.T) {
	kubeconfig := `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"a","cluster":{"server":"https://old"}}],` +
		`"users":[{"name":"a","user":{"token":"t"}}],"contexts":[{"name":"a","context":{"cluster":"a","user":"a"}}],` +
		`"current-context":"a"}`
	dir := t.TempDir()
	file, out, ca := filepath.Join(dir, "c.json"), filepath.Join(dir, "out.json"), filepath.Join(dir, "ca.pem")
	before, err := json.Marshal(ConnectionInfo{KubeConfig: kubeconfig, Namespace: "ns", SecretName: "s"})
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{file: string(before), ca: "pem\n"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := setConnection(file, "https://old", "", out); err != nil {
		t.Fatal(err)
	}
	if same, err := os.ReadFile(out); err != nil || string(same) != string(before) {
		t.Errorf("an equal connection is changed: %s, %v", same, err)
	}
	if err := setConnection(file, "https://new", ca, out); err != nil {
		t.Fatal(err)
	}
	info, err := LoadConnection(out)
	if err != nil || info.Namespace != "ns" || info.SecretName != "s" {
		t.Fatalf("%+v, %v", info, err)
	}
	config, err := restConfig(info, true)
	if err != nil || config.Host != "https://new" || string(config.CAData) != "pem\n" || config.BearerToken != "t" {
		t.Errorf("%+v, %v", config, err)
	}
	if err := setConnection(file, "https://new", ca+".absent", out); err == nil {
		t.Error("an absent authority is accepted")
	}
}

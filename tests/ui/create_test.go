package ui

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/testbed/lab"
	"github.com/drover-io/drover/tests/testbed/rig"
)

const (
	// createTime is the limit for the script that creates a real machine.
	createTime = 6 * time.Minute
	// downTime is the limit for the removal of everything.
	downTime = 2 * time.Minute
	// createdVersion is the version of the quickstart.
	createdVersion = "v1.36.3+k3s1"
)

// TestUICreate fills the form of a new cluster in the UI of a real drover server, with the driver and the kind of
// machine that the quickstart has. It makes the credential on the page, too. The cluster becomes Ready on its page.
func TestUICreate(t *testing.T) {
	r := startRig(t)
	client, err := kubernetes.NewForConfig(r.Config)
	check(t, err)
	cloud, err := client.CoreV1().Secrets("cattle-global-data").Get(t.Context(), "cc-lab", metav1.GetOptions{})
	check(t, err)
	door, err := lab.Forward(context.WithoutCancel(t.Context()), "127.0.0.1:0", r.Lab.Namespace(),
		lab.Gateway.String()+":8443")
	check(t, err)
	t.Cleanup(door.Close)
	value := func(key string) string { return string(cloud.Data["nspawncredentialConfig-"+key]) }
	browseFor(t, createTime, "create", map[string]string{
		"URL": "https://" + door.Address(), "TOKEN": administratorOf(t, client, "fleet-default"),
		"NAMESPACE": "fleet-default", "VERSION": createdVersion,
		"LAB_URL": value("url"), "LAB_TOKEN": value("token"), "LAB_CA": value("ca"),
	}, nil)
	if t.Failed() {
		t.Logf("%s", r.Explain(t.Context(), "created"))
		return
	}
	checkMachine(t, r)
	checkCredential(t, client, value("token"))
}

// startRig starts the quickstart's cloud, with drover server and its management plane, until the test ends.
func startRig(t *testing.T) *rig.Rig {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("the test boots a machine, which needs root: use sudo make test-ui RUN=TestUICreate")
	}
	drover, err := plane.Binary("drover")
	check(t, err)
	cache, err := os.UserCacheDir()
	check(t, err)
	options := rig.Options{
		Name: "uicreate", Dir: filepath.Join(os.TempDir(), "drover-ui-create"), Bin: filepath.Dir(drover),
		Cache: filepath.Join(cache, "drover", "images"), Versions: []string{createdVersion}, Log: t.Output(),
	}
	// A killed run left its rig. The folder always has the same name, so that the next run finds it.
	check(t, rig.Destroy(t.Context(), options))
	var r *rig.Rig
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), downTime)
		defer cancel()
		if r != nil {
			if err := r.Stop(ctx); err != nil {
				t.Errorf("stop the rig: %v", err)
			}
		}
		if err := rig.Destroy(ctx, options); err != nil {
			t.Errorf("destroy the rig: %v", err)
		}
	})
	r, err = rig.Start(t.Context(), options)
	check(t, err)
	return r
}

// checkMachine checks that the cloud created one machine, as the form said, and that nothing disturbed it.
func checkMachine(t *testing.T, r *rig.Rig) {
	t.Helper()
	machines := r.Lab.List()
	if len(machines) != 1 || machines[0].Tag != "from-the-page" {
		t.Errorf("the cloud has machines %+v, want one with the tag of the form", machines)
	}
	counts, err := r.Disruptions(t.Context())
	check(t, err)
	if problem := counts.Problem(); problem != "" {
		t.Error(problem)
	}
}

// checkCredential checks that the page stored the credential.
func checkCredential(t *testing.T, client kubernetes.Interface, secret string) {
	t.Helper()
	secrets, err := client.CoreV1().Secrets("fleet-default").List(t.Context(), metav1.ListOptions{})
	check(t, err)
	stored := 0
	for i := range secrets.Items {
		if holds(&secrets.Items[i], secret) {
			stored++
		}
	}
	if stored == 0 {
		t.Error("no Secret has the value that the dialog asked for")
	}
}

// holds reports whether a Secret is a credential of the lab with this token.
func holds(secret *corev1.Secret, token string) bool {
	return string(secret.Data["nspawncredentialConfig-token"]) == token
}

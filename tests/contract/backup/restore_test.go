package backup

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/operate/backup"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

// TestBackupRestore: the management cluster is lost after a backup, and another one takes over. The restore is
// interrupted once.
func TestBackupRestore(t *testing.T) {
	first := stage.Start(t, stage.Settings{})
	namespace := "backup-restore"
	first.Namespace(namespace)
	clusters := first.Apply(namespace, 3, map[string]string{"rke2": stage.RKE2, "k3s": stage.K3s})
	clusters.AwaitReady()
	elsewhere := importCluster(t, first, namespace, "imported")
	stage.AwaitQuiet(t, time.Minute)
	plans := plansOf(t, first, namespace)
	token := first.TokenOf(plans[0])
	awaitLetIn(t, first, plans[0], token)
	made := recordOf(t, first, namespace)

	saved := saved(t, first)
	expectComplete(t, first, namespace, saved)
	expectComplete(t, first, elsewhere.id, saved)
	first.End()

	other := plane.Another(t)
	restore(t, other.RESTConfig(), saved)
	begin := time.Now()
	// A Drover with the same name must not act on the objects either.
	second := stage.Start(t, stage.Settings{Plane: other, World: first.World})
	awaitLetIn(t, second, plans[0], token)
	if code := ask(t, second, plans[1], token); code != http.StatusForbidden {
		t.Errorf("the agent gets %d for the plan of another machine", code)
	}
	time.Sleep(10 * time.Second) // nothing must happen, which produces no event
	for _, write := range writes(t, other, namespace, begin) {
		if write.Resource != "secrets" { // the token of the account with which the agent was accepted
			t.Errorf("a cluster before its adoption was written: %+v", write)
		}
	}
	if diff := cmp.Diff(made, recordOf(t, second, namespace)); diff != "" {
		t.Errorf("after the restore (-before +after):\n%s", diff)
	}

	take(t, second, namespace, "rke2")
	take(t, second, namespace, "k3s")
	take(t, second, namespace, "imported")
	elsewhere.expectSame(t, second, other)
	elsewhere.remove(t, second)
	manages(t, second, namespace, made, clusters.On(second))
}

// manages checks that a stage manages the new clusters and has not touched their machines.
func manages(t *testing.T, st *stage.Stage, namespace string, made record, clusters *stage.Clusters) {
	t.Helper()
	clusters.AwaitReady()
	time.Sleep(15 * time.Second) // any failure happens within this time
	if diff := cmp.Diff(made, recordOf(t, st, namespace)); diff != "" {
		t.Errorf("after the adoption (-before +after):\n%s", diff)
	}
	st.Edit(namespace, "k3s", func(c *provv1.Cluster) { c.Spec.RKEConfig.MachinePools[1].Quantity = new(int32(1)) })
	st.Edit(namespace, "rke2", func(c *provv1.Cluster) {
		c.Spec.RKEConfig.MachineGlobalConfig.Data = map[string]any{"kubelet-arg": []any{"max-pods=120"}}
	})
	st.AwaitMachines(namespace, 5)
	plane.Until(t, 2*time.Minute, func() string {
		for name, host := range st.World.Machines(namespace) {
			if before := made.Hosts[name]; strings.HasPrefix(name, "rke2-") && host.Installs != before.Installs+1 {
				return fmt.Sprintf("%s was started %d times, before %d", name, host.Installs, before.Installs)
			}
		}
		return ""
	})
	clusters.Delete()
}

// saved returns a backup of a stage, written and read again.
func saved(t *testing.T, st *stage.Stage) *backup.Backup {
	t.Helper()
	client, err := dynamic.NewForConfig(st.Config("tester"))
	check(t, err)
	collected, err := backup.Collect(t.Context(), backup.CollectOptions{Client: client, Version: "test", Now: time.Now})
	check(t, err)
	if len(collected.Manifest.Warnings) > 0 {
		t.Errorf("no work was running, but %v", collected.Manifest.Warnings)
	}
	var file bytes.Buffer
	check(t, collected.Write(&file))
	read, err := backup.Read(&file)
	check(t, err)
	return read
}

// expectComplete fails for every object of a namespace that is not in the backup and that no program creates again.
func expectComplete(t *testing.T, st *stage.Stage, namespace string, saved *backup.Backup) {
	t.Helper()
	for _, object := range st.Objects(namespace) {
		in := slices.ContainsFunc(saved.Objects, func(o *unstructured.Unstructured) bool {
			return o.GetUID() == object.GetUID()
		})
		if derived := backup.Derived(object); in != (derived == "") {
			t.Errorf("%s %s: in the backup %t, created again because %q", object.GetKind(), object.GetName(), in,
				derived)
		}
	}
}

// cutOff passes a number of writes and then fails.
type cutOff struct {
	http.RoundTripper
	left *atomic.Int32
}

var errCutOff = errors.New("interrupted")

// RoundTrip implements http.RoundTripper.
func (c cutOff) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && c.left.Add(-1) < 0 {
		return nil, errCutOff
	}
	return c.RoundTripper.RoundTrip(r)
}

// restore restores a backup. The first attempt is interrupted, and the third one has nothing left to do.
func restore(t *testing.T, config *rest.Config, saved *backup.Backup) {
	t.Helper()
	config.UserAgent, config.QPS = "drover-restore", -1
	client, err := dynamic.NewForConfig(config)
	check(t, err)
	left := &atomic.Int32{}
	left.Store(int32(len(saved.Objects)))
	dying := rest.CopyConfig(config)
	dying.Wrap(func(next http.RoundTripper) http.RoundTripper { return cutOff{next, left} })
	cut, err := dynamic.NewForConfig(dying)
	check(t, err)
	if _, err := backup.Restore(t.Context(), saved, backup.RestoreOptions{Client: cut}); !errors.Is(err, errCutOff) {
		t.Fatalf("the interrupted restore returns %v", err)
	}
	result, err := backup.Restore(t.Context(), saved, backup.RestoreOptions{Client: client})
	check(t, err)
	if len(result.Created) == 0 || len(result.Kept) == 0 {
		t.Errorf("the second attempt created %d and found %d", len(result.Created), len(result.Kept))
	}
	result, err = backup.Restore(t.Context(), saved, backup.RestoreOptions{Client: client})
	check(t, err)
	if len(result.Created) > 0 {
		t.Errorf("the third attempt created %v", result.Created)
	}
}

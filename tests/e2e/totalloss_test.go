package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// TestTotalLoss destroys the only server of a cluster outside Drover and deletes its Machine. One request restores a
// snapshot in S3 onto the new machine of the same pool, with the tokens of the state Secret. The worker and its pods
// keep running, and the worker joins the new server.
func TestTotalLoss(t *testing.T) {
	r := newStored(t, "loss", "v1.36.3+rke2r1", pool{"server", 1, "ec"}, pool{"worker", 1, "w"})
	r.runApplication(r.client())
	r.make("made-before")
	r.takeSnapshot(1)
	snapshot := r.newest()
	r.make("made-after")
	tokens, pods, machines := r.tokens(), r.pods(), r.machines()
	server, worker := r.machineOf("server"), r.machineOf("worker")
	boot := r.command(worker, "cat /proc/sys/kernel/random/boot_id")

	must(t, r.Lab.Delete(t.Context(), server))
	must(t, r.objects.Resource(machinesResource).Namespace(namespace).Delete(t.Context(), server,
		metav1.DeleteOptions{}))
	r.restore(snapshot, 1)
	r.awaitReady("restore")

	r.known = r.downstreamConfig("restore")
	r.expect("made-before", true)
	r.expect("made-after", false)
	replacement := r.machineOf("server")
	if replacement == server {
		t.Fatalf("server %s was not replaced", server)
	}
	want := []string{replacement + ", ready: true", worker + ", ready: true"}
	r.within(2*time.Minute, "the nodes are those of the machines", func() error {
		if diff := cmp.Diff(want, slices.Sorted(slices.Values(r.nodes()))); diff != "" {
			return fmt.Errorf("nodes (-want +got):\n%s", diff)
		}
		return nil
	})
	if machines[worker] != r.machines()[worker] {
		t.Error("the worker was replaced")
	}
	if diff := cmp.Diff(tokens, r.tokens()); diff != "" {
		t.Error("the tokens have changed")
	}
	if diff := cmp.Diff(pods, r.pods()); diff != "" {
		t.Errorf("pods on the worker (-before +after):\n%s", diff)
	}
	if again := r.command(worker, "cat /proc/sys/kernel/random/boot_id"); again != boot {
		t.Error("the worker was rebooted")
	}
	r.listedInS3(1)
}

// machineOf returns the name of the only live Machine of a pool.
func (r *stored) machineOf(pool string) string {
	r.t.Helper()
	list, err := r.list(machinesResource)
	must(r.t, err)
	var names []string
	for i := range list {
		if list[i].GetDeletionTimestamp() == nil && strings.HasPrefix(list[i].GetName(), "restore-"+pool+"-") {
			names = append(names, list[i].GetName())
		}
	}
	if len(names) != 1 {
		r.t.Fatalf("pool %s has the Machines %v, want one", pool, names)
	}
	return names[0]
}

// tokens returns the content of the state Secret.
func (r *stored) tokens() map[string]any {
	r.t.Helper()
	secrets, err := r.list(secretsResource)
	must(r.t, err)
	state := ofType(secrets, rkev1.SecretTypeClusterState)
	if state == nil {
		r.t.Fatal("the cluster has no state Secret")
	}
	content, _, _ := unstructured.NestedMap(state.Object, "data")
	return content
}

// pods returns whether the containers of each pod of the application run. A restart of the stand-in's kubelet restarts
// them, so the number of restarts does not count.
func (r *stored) pods() map[string]bool {
	r.t.Helper()
	list, err := r.client().CoreV1().Pods("default").List(r.t.Context(), metav1.ListOptions{LabelSelector: "app=used"})
	must(r.t, err)
	pods := map[string]bool{}
	for i := range list.Items {
		for _, status := range list.Items[i].Status.ContainerStatuses {
			pods[string(list.Items[i].UID)+"/"+status.Name] = status.State.Running != nil
		}
	}
	return pods
}

package backup

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/pkg/adopt"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/clients"
	"github.com/drover-io/drover/pkg/managementplane"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

// TestMove moves clusters with the stock clusterctl from one management cluster to another, with a Drover in each.
func TestMove(t *testing.T) {
	first := stage.Start(t, stage.Settings{InstanceID: "first"})
	namespace := "moved"
	first.Namespace(namespace)
	clusters := first.Apply(namespace, 3, map[string]string{"rke2": stage.RKE2, "k3s": stage.K3s})
	clusters.AwaitReady()
	stage.AwaitQuiet(t, time.Minute)
	made := recordOf(t, first, namespace)
	other := plane.Another(t)
	second := stage.Start(t, stage.Settings{Plane: other, InstanceID: "second"})

	letGo(t, first, namespace, "rke2")
	letGo(t, first, namespace, "k3s")
	begin := time.Now()
	move(t, namespace, plane.Kubeconfig(t), other)
	time.Sleep(15 * time.Second) // whatever the first one would do about its loss, it does now
	for _, write := range plane.Writes(t, stage.DroverAgent, begin) {
		if write.Namespace == namespace && (write.Resource == "jobs" || write.Verb == "create") {
			t.Errorf("the first Drover does something about clusters that have gone: %+v", write)
		}
	}
	if left := recordOf(t, first, namespace); len(left.Machines)+len(left.Plans) > 0 {
		t.Errorf("left behind are %v and %v", left.Machines, left.Plans)
	} else if diff := cmp.Diff(made.Hosts, left.Hosts); diff != "" {
		t.Errorf("hosts (-before +after):\n%s", diff)
	}
	for _, write := range writes(t, other, namespace, begin) {
		if write.UserAgent == stage.DroverAgent || write.Resource == "jobs" {
			t.Errorf("the second Drover does something about clusters that nobody has adopted: %+v", write)
		}
	}
	first.End()
	second.End()

	third := stage.Start(t, stage.Settings{Plane: other, World: first.World, InstanceID: "second"})
	take(t, third, namespace, "rke2")
	take(t, third, namespace, "k3s")
	manages(t, third, namespace, made, clusters.On(third))
}

// letGo makes the Drover of a stage let go of a cluster.
func letGo(t *testing.T, st *stage.Stage, namespace, name string) {
	t.Helper()
	c, err := clients.New(st.Config("tester"), clients.Options{Version: "test", WithoutDynamic: true})
	check(t, err)
	defer c.Stop()
	cluster := &provv1.Cluster{}
	check(t, st.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, cluster))
	_, err = adopt.Release(c, cluster, true)
	check(t, err)
}

func move(t *testing.T, namespace, from string, to *managementplane.Plane) {
	t.Helper()
	clusterctl, err := plane.Binary("clusterctl")
	check(t, err)
	cmd := exec.CommandContext(t.Context(), clusterctl, "move", "--namespace="+namespace, "--kubeconfig="+from, "--to-kubeconfig="+to.Kubeconfig(), "-v=1")
	// Nothing here asks the internet whether there is a newer clusterctl.
	cmd.Env = append(os.Environ(), "CLUSTERCTL_DISABLE_VERSIONCHECK=true", "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	t.Logf("clusterctl move:\n%s", out)
	check(t, err)
}

package thrifty

import (
	"hash/fnv"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/server"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

func TestMain(m *testing.M) { os.Exit(stage.Main(m)) }

// TestThriftyCore runs clusters with a core that writes less. Two delays run only with DROVER_TEST_ALL, which
// `make test-contract` sets with RUN=TestThriftyCore or FULL=1: they wait for a minute each.
func TestThriftyCore(t *testing.T) {
	t.Run("a cluster becomes ready, rolls out, and is deleted, without a wait for a held status", roll)
	t.Run("a kill between hold and flush loses nothing that is not computed again", kill)
	lags := map[string]func(resource string) time.Duration{
		// MachineSets see the halves of a new Machine before the Machine.
		"watches of Machines lag":          only("machines"),
		"all watches lag, each by its own": each,
	}
	if os.Getenv("DROVER_TEST_ALL") != "" {
		lags["watches of halves of Machines lag"] = only("simmachines", "rkebootstraps")
		lags["watches of MachineSets lag"] = only("machinesets")
	}
	for name, lag := range lags {
		t.Run(name+", and delete nothing", func(t *testing.T) { scale(t, lag) })
	}
}

// lag is longer than the second that Cluster API waits at least between reconciles of an object.
const lag = 2500 * time.Millisecond

func only(resources ...string) func(string) time.Duration {
	return func(resource string) time.Duration {
		return map[bool]time.Duration{true: lag}[slices.Contains(resources, resource)]
	}
}

// each returns a different lag for each resource, the same in every run.
func each(resource string) time.Duration {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(resource)) // never fails
	return time.Duration(hash.Sum32()) % lag
}

func roll(t *testing.T) {
	st := stage.Start(t, stage.Settings{CoreWrites: server.CoreWritesThrifty})
	clusters := st.Apply(plane.Namespace(t), 3, map[string]string{"rke2": stage.RKE2, "k3s": stage.K3s})
	clusters.AwaitReady()
	clusters.LogWrites()

	before := machinesOf(t, st, clusters.Namespace)
	since := time.Now()
	config := &unstructured.Unstructured{}
	config.SetAPIVersion("rke-machine-config.cattle.io/v1")
	config.SetKind("SimConfig")
	key := client.ObjectKey{Namespace: clusters.Namespace, Name: "k3s-worker"}
	if err := st.Client.Get(t.Context(), key, config); err != nil {
		t.Fatal(err)
	}
	config.Object["size"] = "large"
	if err := st.Client.Update(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	plane.Until(t, 3*time.Minute, func() string { return notReplaced(t, st, clusters.Namespace, before) })
	t.Logf("rolled out after %s", time.Since(since).Round(10*time.Millisecond))
	if got := deleted(t, clusters.Namespace, since, "machines"); len(got) != 2 {
		t.Errorf("the rollout has deleted the Machines %v, want 2", got)
	}
	if got := len(created(t, clusters.Namespace, since)); got != 2 {
		t.Errorf("the rollout has created %d Machines, want 2", got)
	}
	clusters.Delete()
	expectNoWait(t, clusters.Namespace, since)
}

func machinesOf(t *testing.T, st *stage.Stage, namespace string) []string {
	t.Helper()
	list := &clusterv1.MachineList{}
	if err := st.Client.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

// notReplaced returns what a rollout of two of six machines still lacks, or "".
func notReplaced(t *testing.T, st *stage.Stage, namespace string, before []string) string {
	t.Helper()
	list := &clusterv1.MachineList{}
	if err := st.Client.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
		return err.Error()
	}
	kept, running := 0, 0
	for i := range list.Items {
		if slices.Contains(before, list.Items[i].Name) {
			kept++
		}
		if list.Items[i].Status.Phase == string(clusterv1.MachinePhaseRunning) {
			running++
		}
	}
	if kept != len(before)-2 || running != len(before) || len(list.Items) != len(before) {
		return strings.Join(machinesOf(t, st, namespace), " ")
	}
	return ""
}

// scale lets a pool grow and shrink while watches lag. Nothing is created or deleted twice.
func scale(t *testing.T, lag func(resource string) time.Duration) {
	t.Helper()
	st := stage.Start(t, stage.Settings{CoreWrites: server.CoreWritesThrifty, Transport: lagging(lag)})
	namespace, since := plane.Namespace(t), time.Now()
	clusters := st.Apply(namespace, 3, map[string]string{"demo": stage.K3s})
	clusters.AwaitReady()
	if got := created(t, namespace, since); len(got) != 3 {
		t.Errorf("Machines %v were created, want 3", got)
	}
	for _, resource := range []string{"machines", "simmachines", "rkebootstraps"} {
		if got := deleted(t, namespace, since, resource); len(got) > 0 {
			t.Errorf("the core has deleted the %s %v of live Machines", resource, got)
		}
	}
	resize(st, namespace, 4)
	st.AwaitMachines(namespace, 5)
	if got := created(t, namespace, since); len(got) != 5 {
		t.Errorf("Machines %v were created, want 5", got)
	}
	all := machinesOf(t, st, namespace)
	resize(st, namespace, 1)
	st.AwaitMachines(namespace, 2)
	gone := slices.DeleteFunc(all, func(name string) bool {
		return slices.Contains(machinesOf(t, st, namespace), name)
	})
	slices.Sort(gone)
	for _, resource := range []string{"machines", "simmachines", "rkebootstraps"} {
		if diff := cmp.Diff(gone, deleted(t, namespace, since, resource)); diff != "" {
			t.Errorf("deleted %s (-want +got):\n%s", resource, diff)
		}
	}
	clusters.Delete()
}

// resize sets the quantity of the workers.
func resize(st *stage.Stage, namespace string, workers int32) {
	st.Edit(namespace, "demo", func(c *provv1.Cluster) { c.Spec.RKEConfig.MachinePools[1].Quantity = &workers })
}

// deleted returns the names of the objects of a namespace that the core has deleted since a moment.
func deleted(t *testing.T, namespace string, since time.Time, resource string) []string {
	t.Helper()
	var names []string
	for _, write := range plane.Writes(t, coreAgent, since) {
		if write.Verb == "delete" && write.Resource == resource && write.Namespace == namespace && write.Code < 300 {
			names = append(names, write.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// created returns the names of the Machines of a namespace that the core has created since a moment.
func created(t *testing.T, namespace string, since time.Time) []string {
	t.Helper()
	var names []string
	for _, write := range plane.Writes(t, coreAgent, since) {
		if write.Resource == "machines" && write.Namespace == namespace && write.Code == 201 {
			names = append(names, write.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

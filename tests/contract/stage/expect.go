package stage

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/tests/contract/plane"
)

// ExpectNodes fails unless a cluster has that many Nodes.
func (st *Stage) ExpectNodes(namespace, cluster string, want int) {
	st.t.Helper()
	nodes, err := st.World.Downstream(namespace, cluster).CoreV1().Nodes().List(st.t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) != want {
		st.t.Errorf("want %d nodes, got %d, error %v", want, len(nodes.Items), err)
	}
}

// AwaitMachines waits until a namespace has that many Machines and all of them run.
func (st *Stage) AwaitMachines(namespace string, want int) {
	st.t.Helper()
	plane.Until(st.t, time.Minute, func() string {
		machines := &clusterv1.MachineList{}
		if err := st.Client.List(st.t.Context(), machines, client.InNamespace(namespace)); err != nil {
			return err.Error()
		}
		running := 0
		for i := range machines.Items {
			status := machines.Items[i].Status
			if status.Phase == string(clusterv1.MachinePhaseRunning) && status.NodeRef.IsDefined() {
				running++
			}
		}
		if running != want || len(machines.Items) != want {
			return fmt.Sprintf("%d of %d machines run", running, len(machines.Items))
		}
		return ""
	})
}

// Rest is how long Drover writes nothing when all clusters are settled. Shorter pauses say less: a thrifty core may
// hold a status for up to 10 seconds (pkg/kube/capi/hold).
const Rest = 12 * time.Second

// AwaitQuiet waits until Drover has written nothing for a second. By then it has reported everything that follows
// readiness, and no plan changes anymore. Its core may still hold statuses: to count writes, wait for Rest.
func AwaitQuiet(t *testing.T, timeout time.Duration) {
	t.Helper()
	plane.Until(t, timeout, func() string {
		if writes := plane.Writes(t, DroverAgent, time.Now().Add(-time.Second)); len(writes) > 0 {
			return fmt.Sprintf("last write: %+v", writes[len(writes)-1])
		}
		return ""
	})
}

// ExpectRest fails for every write by Drover itself since the clusters settled: they are ready and their machines run.
// For the time rollUp, Drover's Cluster API core may still update the counts of machines from MachineSets up to the
// Cluster. Later writes of the core are errors too.
func ExpectRest(t *testing.T, settled time.Time, rollUp time.Duration) {
	t.Helper()
	for _, write := range plane.Writes(t, DroverAgent, settled) {
		after := write.Time.Sub(settled)
		if part(write) == clusterAPI && after <= rollUp {
			continue
		}
		t.Errorf("a write to settled clusters, %s later: %s", after.Round(time.Millisecond), describe(write))
	}
}

// leftovers are the kinds that must have no object in a deleted cluster's namespace.
var leftovers = []schema.GroupVersionKind{
	{Group: "provisioning.cattle.io", Version: "v1", Kind: "Cluster"},
	{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Cluster"},
	{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Machine"},
	{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "MachineSet"},
	{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "MachineDeployment"},
	{Group: "rke.cattle.io", Version: "v1", Kind: "RKECluster"},
	{Group: "rke.cattle.io", Version: "v1", Kind: "RKEControlPlane"},
	{Group: "rke.cattle.io", Version: "v1", Kind: "RKEBootstrap"},
	{Group: "rke.cattle.io", Version: "v1", Kind: "RKEBootstrapTemplate"},
	{Group: "rke-machine.cattle.io", Version: "v1", Kind: "SimMachine"},
	{Group: "rke-machine.cattle.io", Version: "v1", Kind: "SimMachineTemplate"},
	{Version: "v1", Kind: "Secret"},
	{Version: "v1", Kind: "ServiceAccount"},
	{Group: "batch", Version: "v1", Kind: "Job"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
}

// given are objects that do not belong to the cluster.
var given = map[string]bool{"ServiceAccount default": true}

// ManagementNames returns the names of the management Clusters of a namespace's clusters. Their namespaces have the
// same names.
func (st *Stage) ManagementNames(namespace string) []string {
	st.t.Helper()
	clusters := &provv1.ClusterList{}
	if err := st.Client.List(st.t.Context(), clusters, client.InNamespace(namespace)); err != nil {
		st.t.Fatal(err)
	}
	var names []string
	for i := range clusters.Items {
		name := clusters.Items[i].Status.ClusterName
		if name == "" {
			st.t.Fatalf("cluster %s has no identity", clusters.Items[i].Name)
		}
		names = append(names, name)
	}
	return names
}

// managementLeft lists what exists under such a name.
func (st *Stage) managementLeft(name string) string {
	for _, object := range []client.Object{
		&mgmtv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}},
	} {
		if left := st.Gone(object); left != "" {
			return left
		}
	}
	return ""
}

// AwaitNothingLeft waits until deleted clusters have left no host, nothing under their management names, and no object
// in their namespace except machine configs.
func (st *Stage) AwaitNothingLeft(namespace string, identities []string) {
	st.t.Helper()
	plane.Until(st.t, time.Minute, func() string {
		for _, name := range identities {
			if left := st.managementLeft(name); left != "" {
				return left
			}
		}
		if machines := st.World.Machines(namespace); len(machines) > 0 {
			return fmt.Sprintf("%d hosts exist", len(machines))
		}
		for _, gvk := range leftovers {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
			if err := st.Client.List(st.t.Context(), list, client.InNamespace(namespace)); err != nil {
				return fmt.Sprintf("list %s: %v", gvk.Kind, err)
			}
			for i := range list.Items {
				if name := gvk.Kind + " " + list.Items[i].GetName(); !given[name] {
					return name + " remains, with finalizers " + fmt.Sprint(list.Items[i].GetFinalizers())
				}
			}
		}
		return ""
	})
}

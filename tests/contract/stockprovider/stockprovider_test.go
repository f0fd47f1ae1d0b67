package stockprovider

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/local/managementplane"
	"github.com/drover-io/drover/pkg/server"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

func TestMain(m *testing.M) {
	os.Exit(stage.Main(m, func(o *plane.Options) {
		o.Controllers = append(o.Controllers, "clusterrole-aggregation-controller")
	}))
}

// The cluster of the story.
const (
	clusterName = "memory"
	serverPool  = "server"
	workerPool  = "worker"
)

// TestStockProvider: a Cluster names kinds of an infrastructure provider that is not installed, and waits. With the
// provider, the Cluster becomes ready on its machines, its pool follows its quantity, and its deletion leaves nothing.
func TestStockProvider(t *testing.T) {
	t.Run("embedded core", func(t *testing.T) {
		live(t, plane.Running(t), server.CAPIEmbedded)
	})
	t.Run("external core", func(t *testing.T) {
		p := plane.Another(t)
		stage.StartCoreManager(t, p)
		live(t, p, server.CAPIExternal)
	})
}

func live(t *testing.T, p *managementplane.Plane, capi server.CAPIMode) {
	st := stage.Start(t, stage.Settings{CAPI: capi, Plane: p, InstanceID: "stockprovider", Providers: []string{group}})
	namespace := string(capi)
	st.Namespace(namespace)
	apply(t, st, namespace)
	plane.Until(t, time.Minute, func() string { return waitsForProvider(t, st, namespace) })

	awaitRights(t, st, capi)
	installProvider(t, p)
	applyInfrastructure(t, st, namespace)
	startProvider(t, p)
	playHosts(t, st, namespace)
	plane.Until(t, 3*time.Minute, func() string { return st.WaitingFor(namespace, clusterName) })
	st.AwaitMachines(namespace, 3)
	st.ExpectNodes(namespace, clusterName, 3)
	expectProviderIDs(t, st, namespace)

	for _, quantity := range []int32{3, 1} {
		st.Edit(namespace, clusterName, func(c *provv1.Cluster) {
			c.Spec.RKEConfig.MachinePools[1].Quantity = &quantity
		})
		st.AwaitMachines(namespace, 1+int(quantity))
		plane.Until(t, time.Minute, func() string { return hostsMissing(st, namespace, 1+int(quantity)) })
		plane.Until(t, time.Minute, func() string { return st.WaitingFor(namespace, clusterName) })
	}
	expectProviderIDs(t, st, namespace)

	identities := st.ManagementNames(namespace)
	cluster := &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: clusterName}}
	check(t, st.Client.Delete(t.Context(), cluster))
	plane.Until(t, 2*time.Minute, func() string { return st.Gone(cluster) })
	plane.Until(t, time.Minute, func() string { return infrastructureLeft(t, st, namespace) })
	st.AwaitNothingLeft(namespace, identities)
}

// apply applies the Cluster. The distribution leaves the provider IDs of Nodes to the provider.
func apply(t *testing.T, st *stage.Stage, namespace string) {
	t.Helper()
	pool := func(name string, quantity int32, server bool) provv1.RKEMachinePool {
		return provv1.RKEMachinePool{
			Name: name, Quantity: &quantity, EtcdRole: server, ControlPlaneRole: server, WorkerRole: !server,
			NodeConfig: &corev1.ObjectReference{APIVersion: apiVersion, Kind: "DevMachineTemplate", Name: name},
		}
	}
	cluster := &provv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: clusterName},
		Spec: provv1.ClusterSpec{
			KubernetesVersion: stage.RKE2,
			RKEConfig: &provv1.RKEConfig{
				InfrastructureRef: &corev1.ObjectReference{APIVersion: apiVersion, Kind: "DevCluster",
					Name: clusterName},
				MachinePools: []provv1.RKEMachinePool{pool(serverPool, 1, true), pool(workerPool, 2, false)},
			},
		},
	}
	cluster.Spec.RKEConfig.MachineGlobalConfig.Data = map[string]any{
		"cloud-provider-name": "external", "disable-cloud-controller": true,
	}
	check(t, st.Client.Create(t.Context(), cluster))
}

// waitsForProvider returns "" when the Cluster names the missing kinds and the remedy.
func waitsForProvider(t *testing.T, st *stage.Stage, namespace string) string {
	t.Helper()
	cluster := &provv1.Cluster{}
	check(t, st.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: clusterName}, cluster))
	said := stage.Condition(cluster.Status.Conditions, provv1.ConditionRKECluster).Message
	for _, want := range []string{"DevCluster", "DevMachineTemplate", "pools " + serverPool + ", " + workerPool,
		"clusterctl generate provider --infrastructure NAME"} {
		if !strings.Contains(said, want) {
			return fmt.Sprintf("the message of the Cluster lacks %q: %q", want, said)
		}
	}
	return ""
}

// awaitRights waits until the role of the embedded core has the rights on the provider's kinds.
func awaitRights(t *testing.T, st *stage.Stage, capi server.CAPIMode) {
	t.Helper()
	if capi == server.CAPIExternal {
		return // that core is an administrator
	}
	plane.Until(t, time.Minute, func() string {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: plane.Account, ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: "default", Verb: "patch", Group: group, Resource: "devmachines"},
		}}
		check(t, st.Client.Create(t.Context(), review))
		if !review.Status.Allowed {
			return "the core may not patch DevMachines"
		}
		return ""
	})
}

// expectProviderIDs checks that each Machine has the provider's ID, and that its Node is on the host of that machine.
func expectProviderIDs(t *testing.T, st *stage.Stage, namespace string) {
	t.Helper()
	machines := &clusterv1.MachineList{}
	check(t, st.Client.List(t.Context(), machines, client.InNamespace(namespace)))
	hosts := st.World.Machines(namespace)
	for i := range machines.Items {
		machine := &machines.Items[i]
		if want := "in-memory://" + machine.Spec.InfrastructureRef.Name; machine.Spec.ProviderID != want {
			t.Errorf("Machine %s has provider ID %q, want %q", machine.Name, machine.Spec.ProviderID, want)
		}
		if got, want := machine.Status.NodeRef.Name, hosts[machine.Name].Node; got != want || want == "" {
			t.Errorf("Machine %s has Node %q, want %q", machine.Name, got, want)
		}
	}
}

func hostsMissing(st *stage.Stage, namespace string, want int) string {
	if hosts := slices.Sorted(maps.Keys(st.World.Machines(namespace))); len(hosts) != want {
		return fmt.Sprintf("the hosts are %v, want %d", hosts, want)
	}
	return ""
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

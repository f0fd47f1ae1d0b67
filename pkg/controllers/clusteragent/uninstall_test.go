package clusteragent_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers/clusteragent"
	"github.com/drover-io/drover/pkg/decide/clustermanifest"
)

// inCluster returns a cluster's objects of all kinds that an agent is installed with.
func inCluster(t *testing.T, a *agents) []string {
	t.Helper()
	names := []string{}
	for _, kind := range []schema.GroupVersionKind{
		{Version: "v1", Kind: "Namespace"}, {Version: "v1", Kind: "ServiceAccount"}, {Version: "v1", Kind: "Secret"},
		{Version: "v1", Kind: "ConfigMap"}, {Group: "apps", Version: "v1", Kind: "DaemonSet"},
		{Group: "apps", Version: "v1", Kind: "Deployment"},
		{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
		{Group: "scheduling.k8s.io", Version: "v1", Kind: "PriorityClass"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"},
	} {
		for _, object := range a.cluster.Objects(kind) {
			names = append(names, kind.Kind+" "+object.GetName())
		}
	}
	slices.Sort(names)
	return names
}

// everything installs an agent with all optional objects.
func everything(t *testing.T, a *agents) {
	t.Helper()
	priority, budget := &provv1.PriorityClassSpec{Value: 7}, &provv1.PodDisruptionBudgetSpec{MaxUnavailable: "1"}
	management := &mgmtv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: id}}
	management.Spec.ClusterAgentDeploymentCustomization = &provv1.AgentDeploymentCustomization{
		SchedulingCustomization: &provv1.AgentSchedulingCustomization{PriorityClass: priority,
			PodDisruptionBudget: budget},
	}
	source := clustermanifest.Source{ServerURL: "https://drover.example.com", Image: "drover-io/drover:v1"}
	objects, err := clustermanifest.Render(source.Input(management, "hunter2",
		[]clustermanifest.PullSecret{{Name: "pull", DockerConfigJSON: []byte("{}")}}))
	must(t, err)
	must(t, a.cluster.Add(objects[1:]...)) // the namespace exists
	auth, err := clustermanifest.RenderAuth(source.Input(management, "hunter2", nil), "localhost", []byte("{}"))
	must(t, err)
	must(t, a.cluster.Add(auth.Keys, auth.Server))
}

func TestUninstall_DeletesOnlyObjectsOfTheAgent(t *testing.T) {
	a := newAgents(t)
	must(t, a.cluster.Add(
		&corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Namespace: clustermanifest.Namespace, Name: "another-owners"}},
		&rbacv1.ClusterRole{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"},
			ObjectMeta: metav1.ObjectMeta{Name: "cluster-admin"}},
	))
	before := inCluster(t, a)
	everything(t, a)
	// The agents' updates leave a credential that was replaced.
	must(t, a.cluster.Add(&corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: clustermanifest.Namespace, Name: "cattle-credentials-former"},
	}))
	if got := len(inCluster(t, a)) - len(before); got != 12 {
		t.Fatalf("the agent has %d objects, want 12: %v", got, inCluster(t, a))
	}
	name := types.NamespacedName{Namespace: fleet, Name: "demo"}
	must(t, clusteragent.Uninstall(t.Context(), a, name))
	if diff := cmp.Diff(before, inCluster(t, a)); diff != "" {
		t.Errorf("objects after the uninstall (-before +after):\n%s", diff)
	}
	// The binding of Drover's rights is the only object that is deleted, and the last, because deleting the agent's
	// rights first would block the rest.
	writes := a.cluster.Writes(inside)
	for i, write := range writes {
		if last := i == len(writes)-1; (write.Verb == "delete") != last {
			t.Errorf("request %d of %d is %v", i+1, len(writes), write)
		}
	}
	must(t, clusteragent.Uninstall(t.Context(), a, name))
}

func TestUninstall_IgnoresForeignAgents(t *testing.T) {
	w := &world{T: t, agents: newAgents(t)}
	w.installed(nil)
	must(t, clusteragent.Uninstall(t.Context(), w.agents, types.NamespacedName{Namespace: fleet, Name: "demo"}))
	if writes := w.agents.cluster.Writes(inside); len(writes) > 0 {
		t.Errorf("the controller writes %v", writes)
	}
}

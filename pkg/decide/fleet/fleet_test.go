package fleet

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
)

func TestCluster(t *testing.T) {
	defaults := map[string]any{"nodeAffinity": map[string]any{"preferredDuringSchedulingIgnoredDuringExecution": []any{
		map[string]any{"weight": int64(1), "preference": map[string]any{"matchExpressions": []any{map[string]any{
			"key": "fleet.cattle.io/agent", "operator": "In", "values": []any{"true"}}}}}}}}
	for name, tc := range map[string]struct {
		customization *provv1.AgentDeploymentCustomization
		want          map[string]any
	}{
		"without a customization": {want: map[string]any{"agentAffinity": defaults}},
		"an empty scheduling customization is absent": {
			customization: &provv1.AgentDeploymentCustomization{
				SchedulingCustomization: &provv1.AgentSchedulingCustomization{}},
			want: map[string]any{"agentAffinity": defaults},
		},
		"with everything": {
			customization: &provv1.AgentDeploymentCustomization{
				AppendTolerations: []corev1.Toleration{
					{Key: "b", Operator: "Exists"}, {Key: "a", Value: "2"},
					{Key: "a", Value: "1", TolerationSeconds: new(int64(0))},
					{Key: "a", Value: "1"},
				},
				OverrideAffinity: &corev1.Affinity{},
				OverrideResourceRequirements: &corev1.ResourceRequirements{
					Limits: corev1.ResourceList{"memory": resource.MustParse("1Gi")}},
				SchedulingCustomization: &provv1.AgentSchedulingCustomization{
					PriorityClass: &provv1.PriorityClassSpec{
						Value: 7, PreemptionPolicy: new(corev1.PreemptNever)},
					PodDisruptionBudget: &provv1.PodDisruptionBudgetSpec{MinAvailable: "1"},
				},
			},
			want: map[string]any{
				"agentTolerations": []any{
					map[string]any{"key": "a", "value": "1"},
					map[string]any{"key": "a", "value": "1", "tolerationSeconds": int64(0)},
					map[string]any{"key": "a", "value": "2"}, map[string]any{"key": "b", "operator": "Exists"},
				},
				"agentAffinity":  map[string]any{},
				"agentResources": map[string]any{"limits": map[string]any{"memory": "1Gi"}},
				"agentSchedulingCustomization": map[string]any{
					"priorityClass":       map[string]any{"value": int64(7), "preemptionPolicy": "Never"},
					"podDisruptionBudget": map[string]any{"minAvailable": "1"},
				},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo",
				Annotations: map[string]string{provv1.FleetWorkspaceNameAnnotation: "work"}}}
			cluster.Status.ClientSecretName = "demo-kubeconfig"
			cluster.Spec.FleetAgentDeploymentCustomization = tc.customization
			management := &mgmtv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-m-1", Labels: map[string]string{
				"env": "test", "objectset.rio.cattle.io/hash": "x"},
				Annotations: map[string]string{"note": "a", "objectset.rio.cattle.io/applied": "x",
					"kubectl.kubernetes.io/last-applied-configuration": "x"}}}
			management.Spec.DisplayName = "demo"
			management.Spec.AgentEnvVars = []corev1.EnvVar{{Name: "A", Value: "b"}}
			management.Spec.ClusterSecrets.PrivateRegistryURL = "registry.example.com"
			got, err := Cluster(cluster, management)
			if err != nil {
				t.Fatal(err)
			}
			tc.want["kubeConfigSecret"], tc.want["kubeConfigSecretNamespace"] = "demo-kubeconfig", "ns"
			tc.want["agentEnvVars"] = []any{map[string]any{"name": "A", "value": "b"}}
			tc.want["privateRepoURL"] = "registry.example.com"
			want := map[string]any{
				"apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Cluster",
				"metadata": map[string]any{
					"namespace": "work", "name": "demo", "annotations": map[string]any{"note": "a"},
					"labels": map[string]any{"env": "test", "management.cattle.io/cluster-name": "c-m-1",
						"management.cattle.io/cluster-display-name": "demo"},
				},
				"spec": tc.want,
			}
			if diff := cmp.Diff(want, got.Object); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadsSecrets(t *testing.T) {
	for name, tc := range map[string]struct {
		namespace, workspace string
		want                 bool
	}{
		"the workspace itself":     {"team-a", "team-a", true},
		"the default workspace":    {"fleet-default", "team-a", true},
		"a namespace of a cluster": {"cluster-x", "team-a", true},
		"another namespace":        {"team-b", "team-a", false},
	} {
		if got := ReadsSecrets(tc.namespace, tc.workspace); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestKeepSecretKeys(t *testing.T) {
	got := KeepSecretKeys(map[string][]byte{"value": []byte("old"), "apiServerURL": []byte("url"),
		"other": []byte("x")},
		map[string][]byte{"value": []byte("new")})
	if diff := cmp.Diff(map[string][]byte{"value": []byte("new"), "apiServerURL": []byte("url")}, got); diff != "" {
		t.Error(diff)
	}
}

func TestWorkspaceObjects_CreatorGetsRights(t *testing.T) {
	names := func(workspace *mgmtv3.FleetWorkspace) []string {
		var out []string
		for _, object := range WorkspaceObjects(workspace) {
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
			if err != nil {
				t.Fatal(err)
			}
			u := unstructured.Unstructured{Object: content}
			out = append(out, u.GetKind()+" "+u.GetNamespace()+"/"+u.GetName())
		}
		return out
	}
	workspace := &mgmtv3.FleetWorkspace{ObjectMeta: metav1.ObjectMeta{Name: "w"}}
	if diff := cmp.Diff([]string{"Namespace /w"}, names(workspace)); diff != "" {
		t.Error(diff)
	}
	workspace.Annotations = map[string]string{provv1.CreatorIDAnnotation: "alice"}
	if diff := cmp.Diff([]string{"Namespace /w", "RoleBinding w/fleetworkspace-admin-binding-w",
		"ClusterRole /fleetworkspace-own-w", "ClusterRoleBinding /fleetworkspace-own-binding-w"},
		names(workspace)); diff != "" {
		t.Error(diff)
	}
	workspace.Annotations[provv1.NoCreatorRBACAnnotation] = "true"
	if got := names(workspace); len(got) != 1 {
		t.Errorf("without rights for the creator: %v", got)
	}
}

func TestHolders(t *testing.T) {
	for want, names := range map[string][]string{
		"a/b":                                {"a/b", "a/b"},
		"a/1, a/2":                           {"a/2", "a/1"},
		"a/1, a/2, a/3, a/4, a/5 and 1 more": {"a/6", "a/5", "a/4", "a/3", "a/2", "a/1"},
	} {
		if got := Holders(names); got != want {
			t.Errorf("%v: %q, want %q", names, got, want)
		}
	}
}

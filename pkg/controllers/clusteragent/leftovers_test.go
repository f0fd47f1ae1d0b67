package clusteragent_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/clustermanifest"
)

// scheduling returns the names of PriorityClasses in the cluster, and the limits of the agent's budget.
func (w *world) scheduling() (classes []string, budget string) {
	w.Helper()
	for _, class := range w.agents.cluster.Objects(schedulingv1.SchemeGroupVersion.WithKind("PriorityClass")) {
		classes = append(classes, class.GetName())
	}
	slices.Sort(classes)
	found := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: clustermanifest.Namespace,
		Name: clustermanifest.Budget}}
	exists, err := w.agents.cluster.Get(found)
	must(w.T, err)
	if exists && found.Spec.MinAvailable != nil {
		budget = "at least " + found.Spec.MinAvailable.String()
	}
	if exists && found.Spec.MaxUnavailable != nil {
		budget += "at most " + found.Spec.MaxUnavailable.String()
	}
	return classes, budget
}

// The priority and the budget of the agent follow the Cluster: they are added, changed and removed. Objects of others
// stay.
func TestStory_SchedulingOfTheAgentFollowsTheCluster(t *testing.T) {
	tell(t, func(w *world) {
		w.add(token(), controlPlane(false))
		w.installed(map[string]string{clustermanifest.DigestAnnotation: "of another release"})
		must(t, w.agents.cluster.Add(
			&schedulingv1.PriorityClass{
				TypeMeta:   metav1.TypeMeta{APIVersion: "scheduling.k8s.io/v1", Kind: "PriorityClass"},
				ObjectMeta: metav1.ObjectMeta{Name: clustermanifest.PriorityClass},
			},
			&policyv1.PodDisruptionBudget{
				TypeMeta: metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
				ObjectMeta: metav1.ObjectMeta{Namespace: clustermanifest.Namespace,
					Name: clustermanifest.Budget},
				Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(1))},
			}))
		w.agents.set(true)
		w.elapse(time.Minute)
		if classes, budget := w.scheduling(); budget != "" ||
			!slices.Equal(classes, []string{clustermanifest.PriorityClass}) {
			t.Fatalf("a budget of an earlier manifest is %q, classes %v", budget, classes)
		}
		seen := map[string]bool{clustermanifest.PriorityClass: true}
		for _, step := range []struct {
			value  int
			budget *provv1.PodDisruptionBudgetSpec
			want   string
		}{
			{5, &provv1.PodDisruptionBudgetSpec{MinAvailable: "1"}, "at least 1"},
			{6, &provv1.PodDisruptionBudgetSpec{MaxUnavailable: "50%"}, "at most 50%"},
			{6, nil, ""},
		} {
			w.edit(func(c *mgmtv3.Cluster) {
				c.Spec.ClusterAgentDeploymentCustomization = &provv1.AgentDeploymentCustomization{
					SchedulingCustomization: &provv1.AgentSchedulingCustomization{
						PriorityClass: &provv1.PriorityClassSpec{Value: step.value}, PodDisruptionBudget: step.budget,
					},
				}
			})
			w.elapse(time.Minute)
			classes, budget := w.scheduling()
			if budget != step.want || len(classes) != 2 {
				t.Fatalf("with priority %d, the budget is %q, classes %v; log %s", step.value, budget, classes, w.log)
			}
			client, err := w.agents.Client(t.Context(), types.NamespacedName{})
			must(t, err)
			deployment, err := client.AppsV1().Deployments(clustermanifest.Namespace).Get(t.Context(),
				clustermanifest.Deployment, metav1.GetOptions{})
			must(t, err)
			if class := deployment.Spec.Template.Spec.PriorityClassName; !slices.Contains(classes, class) ||
				class == clustermanifest.PriorityClass {
				t.Errorf("the agent has class %q of %v", class, classes)
			}
			seen[deployment.Spec.Template.Spec.PriorityClassName] = true
		}
		if len(seen) != 3 {
			t.Errorf("two priorities have the classes %v", seen)
		}
		w.edit(func(c *mgmtv3.Cluster) { c.Spec.ClusterAgentDeploymentCustomization = nil })
		w.elapse(time.Minute)
		classes, budget := w.scheduling()
		if diff := cmp.Diff([]string{clustermanifest.PriorityClass}, classes); diff != "" || budget != "" {
			t.Errorf("after the removal, the budget is %q, classes (-want +got):\n%s", budget, diff)
		}
		w.agents.cluster.ResetLog()
		w.elapse(time.Hour)
		if writes := w.agents.cluster.Writes(inside); len(writes) > 0 {
			t.Errorf("writes in an hour without changes: %v", writes)
		}
	})
}

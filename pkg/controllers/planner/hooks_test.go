package planner_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers/machinedrain"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/kube/clients"
)

const (
	hookBefore = "example.org/before"
	hookAfter  = "example.org/after"
)

// Client returns the cluster whose nodes are drained.
func (s *story) Client(context.Context, types.NamespacedName) (kubernetes.Interface, error) {
	return s.nodes, nil
}

// registerDrains adds the controller that drains nodes, if the test has nodes.
func (s *story) registerDrains(c *clients.Clients) {
	s.Helper()
	if s.nodes == nil {
		return
	}
	must(s.T, machinedrain.Register(c.HandlerContext(), machinedrain.Deps{
		InstanceID: instance, Secrets: c.Core.Secret(), Machines: c.CAPI.Machine(),
		ProvisioningClusters: c.Provisioning.Cluster().Cache(), Downstream: s,
	}))
}

// makeNodes creates a node with a pod for every machine.
func (s *story) makeNodes() {
	s.nodes = fake.NewClientset()
	s.nodes.Resources = []*metav1.APIResourceList{{GroupVersion: "v1"}} // without the eviction API, pods are deleted
	for _, name := range slices.Sorted(maps.Keys(s.roles)) {
		must(s.T, s.nodes.Tracker().Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
		must(s.T, s.nodes.Tracker().Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "on-" +
			name}, Spec: corev1.PodSpec{NodeName: name}}))
	}
}

// hooksAnswer answers as the owners of the hooks, and returns the questions with their machines.
func (s *story) hooksAnswer() (asked []string) {
	s.Helper()
	for _, name := range slices.Sorted(maps.Keys(s.roles)) {
		secret, err := s.world.Core.Secret().Get(namespace, naming.PlanSecret(name+"-boot"), metav1.GetOptions{})
		must(s.T, err)
		for question, answer := range map[string]string{rkev1.PreDrainAnnotation: hookBefore,
			rkev1.PostDrainAnnotation: hookAfter} {
			if request := secret.Annotations[question]; request != "" && secret.Annotations[answer] != request {
				secret.Annotations[answer] = request
				asked = append(asked, answer+" "+name)
			}
		}
		if len(asked) > 0 {
			_, err = s.world.Core.Secret().Update(secret)
			must(s.T, err)
			return asked // one machine is drained at a time
		}
	}
	return nil
}

// wantHeld fails if a machine has a new plan before its hook has agreed.
func (s *story) wantHeld(agreed []string) {
	s.Helper()
	for _, name := range s.restarted() {
		if !slices.Contains(agreed, hookBefore+" "+name) {
			s.Fatalf("%s changes before its hook agrees", name)
		}
	}
}

// Hooks are asked once before a node is drained and once before it is uncordoned, wherever the manager is killed.
func TestStory_HooksOfDrainsAreAskedOnceWhereverTheManagerIsKilled(t *testing.T) {
	retell(t, "v1.36.2+rke2r1", map[string]string{"a": "etcd,control-plane", "b": "etcd,control-plane", "w": "worker"},
		3, func(s *story) {
			s.restarted() // records the current state
			cp := s.controlPlane()
			cp.Spec.ProvisionGeneration = 7
			options := rkev1.DrainOptions{
				Enabled: true, Force: true, PreDrainHooks: []rkev1.DrainHook{{Annotation: hookBefore}},
				PostDrainHooks: []rkev1.DrainHook{{Annotation: hookAfter}},
			}
			cp.Spec.UpgradeStrategy.ControlPlaneDrainOptions, cp.Spec.UpgradeStrategy.WorkerDrainOptions = options,
				options
			_, err := s.world.RKE.RKEControlPlane().Update(cp)
			must(s.T, err)
			var asked []string
			s.until("the change is complete", func() bool {
				if busy := s.outOfSync(); len(busy) > 1 {
					s.Fatalf("%v change at the same time", busy)
				}
				s.wantHeld(asked)
				asked = append(asked, s.hooksAnswer()...)
				cp := s.controlPlane()
				return s.ready() && cp.Status.AppliedSpec != nil && cp.Status.AppliedSpec.ProvisionGeneration == 7
			})
			var want []string
			for _, name := range []string{"a", "b", "w"} {
				want = append(want, hookBefore+" "+name, hookAfter+" "+name)
			}
			if !slices.Equal(asked, want) {
				s.Errorf("the hooks got %v, want %v", asked, want)
			}
			s.wantNodes()
		}, (*story).makeNodes)
}

// wantNodes fails unless all nodes are schedulable and their old pods are gone.
func (s *story) wantNodes() {
	s.Helper()
	nodes, err := s.nodes.CoreV1().Nodes().List(s.Context(), metav1.ListOptions{})
	must(s.T, err)
	for i := range nodes.Items {
		if nodes.Items[i].Spec.Unschedulable {
			s.Errorf("node %s stays cordoned", nodes.Items[i].Name)
		}
	}
	pods, err := s.nodes.CoreV1().Pods("").List(s.Context(), metav1.ListOptions{})
	must(s.T, err)
	if len(pods.Items) > 0 {
		s.Errorf("%d pods were not evicted", len(pods.Items))
	}
	s.elapse(time.Minute)
}

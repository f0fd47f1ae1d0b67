package stories

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubeschema "k8s.io/apimachinery/pkg/runtime/schema"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
)

// retell runs a part of a story once without a kill, and then again for several points. At each point it kills the
// process after that write of the part and starts another one at once. In the end, the API must hold the same objects
// and no more writes may follow. Before runs first.
func retell(t *testing.T, most int, before, part func(s *story)) {
	t.Helper()
	var want map[string]any
	crashpoints.Each(t, most, func(t *testing.T, n int) (writes int) {
		t.Helper()
		told(t, func(s *story) {
			before(s)
			s.killAfter(n)
			part(s)
			writes = s.api.Written(agent)
			s.settle() // replaces a process that was killed at the very end
			got := crashpoints.Bare(s.objects())
			if want == nil {
				want = got
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("killed after write %d, the result differs (-never killed +killed):\n%s", n, diff)
			}
			s.api.ResetLog()
			pass(time.Hour)
			if late := s.api.Writes(agent); len(late) > 0 {
				t.Errorf("killed after write %d: %d writes without a change: %v", n, len(late), late)
			}
		})
		return writes
	})
}

// drivers is the state before any cluster.
func drivers(s *story) {
	s.t.Helper()
	s.add(podSchema(), machineConfig("nc"))
	s.settle()
}

// settled is a cluster whose machines exist.
func settled(s *story) {
	s.t.Helper()
	s.add(podSchema(), machineConfig("nc"), demo())
	s.settle()
}

// killAfter kills the process after write n from now, and starts another one. With n = 0 it does nothing.
func (s *story) killAfter(n int) {
	s.api.ResetLog()
	if n > 0 {
		s.api.CutAfter(agent, n, s.restart)
	}
}

// objects returns all clusters and their objects.
func (s *story) objects() []*unstructured.Unstructured {
	var objects []*unstructured.Unstructured
	for _, gvk := range append(childKinds(), provv1.SchemeGroupVersion.WithKind("Cluster"),
		corev1.SchemeGroupVersion.WithKind("Namespace"),
		kubeschema.GroupVersionKind{Group: clients.MachineConfigGroup, Version: "v1", Kind: "PodConfig"}) {
		objects = append(objects, s.api.Objects(gvk)...)
	}
	return objects
}

// TestCluster_ChangesAreKilledAfterEveryWrite: a change of an existing cluster has the same result when the process is
// killed after any write that follows from it.
func TestCluster_ChangesAreKilledAfterEveryWrite(t *testing.T) {
	crashpoints.SkipRaced(t)
	answers := func(s *story) {
		s.printsKubeconfig("demo-server-0", printed, "https://198.18.0.7:6443")
		s.settle()
		s.prober.answer()
		s.settle()
		s.prober.answer() // the new process asks again
		s.settle()
	}
	cases := map[string]struct{ before, happens, want func(s *story) }{
		"its API answers": {happens: answers, want: func(s *story) {
			if reached := s.read(); !reached.Status.Ready || reached.Status.ClientSecretName != "demo-kubeconfig" ||
				reached.Status.ObservedGeneration != reached.Generation {
				s.t.Errorf("status %+v", reached.Status)
			}
			if !conditions.IsTrue(s.management().Status.Conditions, "Connected") || s.kubeconfig() == nil {
				s.t.Errorf("conditions %+v", s.management().Status.Conditions)
			}
		}},
		"its address changes": {before: answers, happens: func(s *story) {
			s.printsKubeconfig("demo-server-0", printed, "")
			s.addresses("demo-server-0", "198.18.0.9", "203.0.113.9")
		}, want: func(s *story) {
			if got := server(s.t, s.kubeconfig()); got != "https://203.0.113.9:6443" {
				s.t.Errorf("server %s", got)
			}
		}},
		"a pool is removed": {happens: func(s *story) {
			s.edit(func(c *provv1.Cluster) { c.Spec.RKEConfig.MachinePools = c.Spec.RKEConfig.MachinePools[:1] })
		}, want: func(s *story) {
			if got := s.api.Objects(capiGroup.WithKind("MachineDeployment")); len(got) != 1 ||
				got[0].GetName() != "demo-server" {
				s.t.Errorf("machine deployments %v", got)
			}
		}},
		"children are deleted": {happens: func(s *story) {
			client, removal := s.core.client, metav1.DeleteOptions{}
			err := client.Resource(mgmtv3.SchemeGroupVersion.WithResource("clusters")).Delete(s.t.Context(),
				s.read().Status.ClusterName, removal)
			if err == nil {
				err = client.Resource(rkeGVR).Namespace(namespace).Delete(s.t.Context(), "demo", removal)
			}
			if err != nil {
				s.t.Fatal(err)
			}
			s.edit(func(c *provv1.Cluster) { c.Labels = map[string]string{"touched": "yes"} })
		}, want: func(s *story) {
			if diff := cmp.Diff(wantChildren, s.children()); diff != "" {
				s.t.Errorf("children (-want +got):\n%s", diff)
			}
		}},
		"it is deleted with its kubeconfig": {before: answers, happens: (*story).delete, want: func(s *story) {
			if left := s.children(); !cmp.Equal(left, []string{"Secret. demo-server-0-machine-plan"}) ||
				s.read() != nil {
				s.t.Errorf("remaining objects: %v", left)
			}
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			retell(t, 6, func(s *story) {
				settled(s)
				if c.before != nil {
					c.before(s)
				}
			}, func(s *story) {
				c.happens(s)
				s.settle()
				c.want(s)
			})
		})
	}
}

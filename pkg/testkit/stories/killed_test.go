package stories

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/conditions"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
)

// TestCluster_ChangesAreKilledAfterEveryWrite: what happens to a cluster that is there comes to the same end when the process is killed after any
// write that follows from it.
func TestCluster_ChangesAreKilledAfterEveryWrite(t *testing.T) {
	crashpoints.SkipRaced(t)
	answers := func(s *story) {
		s.printsKubeconfig("demo-server-0", printed, "https://198.18.0.7:6443")
		s.settleKilled()
		s.prober.answer()
		s.settleKilled()
		s.prober.answer() // whoever took over asks anew
		s.settleKilled()
	}
	cases := map[string]struct{ before, happens, want func(s *story) }{
		"its API answers": {happens: answers, want: func(s *story) {
			if reached := s.read(); !reached.Status.Ready || reached.Status.ClientSecretName != "demo-kubeconfig" || reached.Status.ObservedGeneration != reached.Generation {
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
		"a pool goes": {happens: func(s *story) {
			s.edit(func(c *provv1.Cluster) { c.Spec.RKEConfig.MachinePools = c.Spec.RKEConfig.MachinePools[:1] })
		}, want: func(s *story) {
			if got := s.api.Objects(capiGroup.WithKind("MachineDeployment")); len(got) != 1 || got[0].GetName() != "demo-server" {
				s.t.Errorf("machine deployments %v", got)
			}
		}},
		"children are taken away": {happens: func(s *story) {
			client, removal := s.core.client, metav1.DeleteOptions{}
			err := client.Resource(mgmtv3.SchemeGroupVersion.WithResource("clusters")).Delete(s.t.Context(), s.read().Status.ClusterName, removal)
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
			if left := s.children(); !cmp.Equal(left, []string{"Secret. demo-server-0-machine-plan"}) || s.read() != nil {
				s.t.Errorf("left: %v", left)
			}
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			crashpoints.Each(t, 6, func(t *testing.T, n int) (writes int) {
				t.Helper()
				told(t, func(s *story) {
					s.add(podSchema(), machineConfig("nc"), demo())
					s.settle()
					if c.before != nil {
						c.before(s)
					}
					s.api.ResetLog()
					if n > 0 {
						killed := make(chan struct{})
						s.killed = killed
						s.api.CutAfter(agent, n, func() { close(killed) })
					}
					c.happens(s)
					s.settleKilled()
					c.want(s)
					writes = len(s.api.Writes(agent))
				})
				return writes
			})
		})
	}
}

// settleKilled settles, and once more with the next process when the former one was killed meanwhile.
func (s *story) settleKilled() {
	s.t.Helper()
	s.settle()
	select {
	case <-s.killed:
		s.killed = nil // once is enough
		s.restart()
		s.settle()
	default:
	}
}

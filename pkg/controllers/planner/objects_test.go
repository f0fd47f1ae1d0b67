package planner_test

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// withoutProofs replaces the checksum of each plan by that of the plan without the proof of etcd. The proof belongs to
// one delivery, its time and the members at that time. Runs that end with the same plans may differ in deliveries.
func (s *story) withoutProofs() *strings.Replacer {
	s.Helper()
	var pairs []string
	for name := range s.roles {
		secret, err := s.world.Core.Secret().Get(namespace, naming.PlanSecret(name+"-boot"), metav1.GetOptions{})
		must(s.T, err)
		for _, key := range []string{nodeplan.KeyPlan, nodeplan.KeyAppliedPlan} {
			p, err := nodeplan.Decode(secret.Data[key])
			if err != nil || !render.HasEtcdProof(p) {
				continue
			}
			bare, err := nodeplan.Encode(render.WithoutEtcdProof(p))
			must(s.T, err)
			pairs = append(pairs, nodeplan.Checksum(secret.Data[key]), nodeplan.Checksum(bare))
		}
	}
	return strings.NewReplacer(pairs...)
}

// objects returns every object that the manager writes, without what differs between runs.
func (s *story) objects() map[string]any {
	s.Helper()
	out := map[string]any{}
	cp := s.controlPlane()
	for i := range cp.Status.Conditions {
		cp.Status.Conditions[i].LastUpdateTime, cp.Status.Conditions[i].LastTransitionTime = "", ""
	}
	slices.SortFunc(cp.Status.Conditions, func(a, b rkev1.GenericCondition) int {
		return strings.Compare(a.Type, b.Type)
	})
	bare := s.withoutProofs()
	if cp.Status.Ticket != nil {
		for i, m := range cp.Status.Ticket.Machines {
			cp.Status.Ticket.Machines[i].PlanChecksum = bare.Replace(m.PlanChecksum)
		}
	}
	out["RKEControlPlane"] = cp.Status
	for name := range s.roles {
		machine, err := s.world.CAPI.Machine().Get(namespace, name, metav1.GetOptions{})
		must(s.T, err)
		out["Machine "+name] = []any{machine.Labels, machine.Annotations}
		for _, kind := range []string{"Reconciled", "PlanApplied"} {
			c := conditions.GetMeta(machine.Status.Conditions, kind)
			if c == nil {
				s.Fatalf("machine %s has no condition %s", name, kind)
			}
			c.LastTransitionTime = metav1.Time{}
			out["Machine "+name+" "+kind] = *c
		}
		secret, err := s.world.Core.Secret().Get(namespace, naming.PlanSecret(name+"-boot"), metav1.GetOptions{})
		must(s.T, err)
		if secret.Annotations[rkev1.PlanProbesPassedAnnotation] == "" ||
			secret.Annotations[rkev1.PlanUpdatedTimeAnnotation] == "" {
			s.Errorf("the plan Secret of %s has no times", name)
		}
		delete(secret.Annotations, rkev1.PlanProbesPassedAnnotation)
		delete(secret.Annotations, rkev1.PlanUpdatedTimeAnnotation)
		checksums := map[string]string{}
		for key, value := range secret.Data {
			checksums[key] = bare.Replace(nodeplan.Checksum([]byte(bare.Replace(string(value)))))
		}
		for key, value := range secret.Annotations {
			secret.Annotations[key] = bare.Replace(value)
		}
		out["Secret "+name] = []any{secret.Labels, secret.Annotations, checksums}
	}
	state, err := s.world.Core.Secret().Get(namespace, naming.ClusterState(cluster), metav1.GetOptions{})
	must(s.T, err)
	out["state"] = []any{state.Labels, state.Data}
	return out
}

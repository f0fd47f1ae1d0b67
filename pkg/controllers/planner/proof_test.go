package planner_test

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/pkg/naming"
	"github.com/drover-io/drover/pkg/nodeplan"
	"github.com/drover-io/drover/pkg/planner/render"
)

// withoutProofs puts, in place of the checksum of each plan, that of the plan without the proof of etcd: the proof belongs to a delivery, to its time and to
// who was a member then, and stories that end with the same plans may have got there by other deliveries.
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

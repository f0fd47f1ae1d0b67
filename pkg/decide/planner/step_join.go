package planner

import (
	corev1 "k8s.io/api/core/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// stepJoin notes where servers can be joined, in one pass and before the tiers need it. It never ends the walk. The URL
// of a server follows its address, unless an operator sets it by hand.
func stepJoin(p *pass) verdict {
	p.joinable = nil
	for _, m := range p.collect(isLive, func(m *machine) bool { return m.roles.Server() }) {
		if _, byHand := m.Annotations[rkev1.JoinURLAutosetDisabledAnnotation]; byHand {
			if set := m.Annotations[rkev1.JoinURLAnnotation]; set != "" {
				m.marks.JoinURL = set
			}
			continue
		}
		if !m.Plan.State.PlanExists || m.Marks.JoinURL == "" && !m.isRunning() {
			continue
		}
		if found := m.joinURL(render.SupervisorPort(p.plans.inputFor(m, ""))); found != "" {
			m.marks.JoinURL = found
		}
	}
	if p.init.marks.JoinURL == "" {
		return goOn("the init node cannot be joined yet")
	}
	p.set(rkev1.ConditionBootstrapped, corev1.ConditionTrue, "", "")
	return goOn("the init node can be joined")
}

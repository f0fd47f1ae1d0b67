package planner

import (
	"slices"

	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

func neverApplied(s *nodeplan.State) bool {
	return s.AppliedPlan == nil && s.AppliedChecksum == ""
}

// unhealthyProbes are the names of the plan's probes that have not passed, including those without a report.
func (m *machine) unhealthyProbes() []string { return m.Plan.unhealthyProbes() }

func (s *PlanSecret) unhealthyProbes() []string {
	var names []string
	for name := range s.State.Plan.Probes {
		if !s.State.ProbeStatuses[name].Healthy {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

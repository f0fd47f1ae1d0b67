package planner

import (
	"slices"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
)

// UnderWay lists what was begun in a cluster and must be ended by the program that began it: operations that run, and
// drained nodes.
func UnderWay(s Snapshot) []string {
	var out []string
	for _, k := range kinds {
		if c := conditions.Get(s.ControlPlane.Status.Conditions, k.Condition); c != nil &&
			c.Status == rkev1.ConditionUnknown {
			out = append(out, "an operation runs: "+k.Title)
		}
	}
	for i := range s.Machines {
		if m := &s.Machines[i]; m.Plan != nil && !m.Deleting && (&machine{Machine: m}).isInDrain() {
			out = append(out, "the node of machine "+m.Name+" is drained")
		}
	}
	slices.Sort(out)
	return out
}

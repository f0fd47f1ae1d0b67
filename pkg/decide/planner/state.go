package planner

import (
	"slices"

	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// State is the progress of a machine with its plan, as its plan Secret reports it at the beginning of a pass.
type State string

const (
	// StateUnregistered means that the machine has no plan Secret yet.
	StateUnregistered State = "Unregistered"
	// StateUnreadable means that the plan Secret cannot be read. The machine gets no plan until the user repairs that.
	StateUnreadable State = "Unreadable"
	// StateNew means that the machine has no plan yet.
	StateNew State = "New"
	// StateApplying means that the node has neither carried out its plan nor failed. It may restart at any time.
	StateApplying State = "Applying"
	// StateRefusing means that the node could not prove that etcd can do without its member. Nothing has changed on the
	// node, and its agent tries again.
	StateRefusing State = "Refusing"
	// StateRefused is StateRefusing after so many tries that the plan counts as failed.
	StateRefused State = "Refused"
	// StateFailed means that the plan failed for another reason. Parts of it may be in effect.
	StateFailed State = "Failed"
	// StateUnhealthy means that the plan is applied, and not all of its probes pass.
	StateUnhealthy State = "Unhealthy"
	// StateHealthy means that the plan is applied, and all of its probes pass.
	StateHealthy State = "Healthy"
)

// stateOf is the state of the machine with this plan Secret.
func stateOf(secret *PlanSecret) State {
	switch {
	case secret == nil:
		return StateUnregistered
	case secret.Malformed != "":
		return StateUnreadable
	case !secret.State.PlanExists:
		return StateNew
	case secret.State.Failed && secret.hasRefused():
		return StateRefused
	case secret.State.Failed:
		return StateFailed
	case secret.State.Works():
		return StateHealthy
	case secret.State.InSync:
		return StateUnhealthy
	case secret.hasRefused():
		return StateRefusing
	}
	return StateApplying
}

// isApplying reports that the delivered plan is neither carried out nor failed, so the node may restart at any time.
func (m *machine) isApplying() bool {
	state := &m.Plan.State
	return state.PlanExists && !state.InSync && !state.Failed
}

// isStarting reports that this pass delivers a plan to the machine or requests its drain.
func (m *machine) isStarting() bool { return m.getsPlan || m.getsDrain }

// hasJoined reports that a machine has become part of the cluster before.
func (m *machine) hasJoined() bool {
	return m.HasNode || m.marks.JoinURL != "" || m.Plan != nil && !neverApplied(&m.Plan.State)
}

// hasNeverWorked reports that a machine has never worked with its applied plan.
func (m *machine) hasNeverWorked() bool {
	return m.Plan.State.InSync && !m.Plan.ProbesPassed && len(m.unhealthyProbes()) > 0
}

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

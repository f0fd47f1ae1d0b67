package events

import (
	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// WorkspaceChanged returns the events of a change of a FleetWorkspace.
func WorkspaceChanged(before, after *mgmtv3.FleetWorkspace) []Event {
	l := about(workspaceKind, after)
	ready := transition{
		ownCondition(before.Status.Conditions, mgmtv3.FleetWorkspaceConditionReady),
		ownCondition(after.Status.Conditions, mgmtv3.FleetWorkspaceConditionReady),
	}
	if ready.became(rkev1.ConditionFalse) {
		l.warning(ReasonWorkspaceQuestioned, ready.is.why())
	}
	return l.events
}

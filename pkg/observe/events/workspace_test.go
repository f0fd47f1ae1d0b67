package events

import (
	"testing"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
)

func TestWorkspaceChanged(t *testing.T) {
	workspace := func(status, reason, message string) *mgmtv3.FleetWorkspace {
		w := &mgmtv3.FleetWorkspace{}
		w.Name = "team-a"
		with(&w.Status.Conditions, mgmtv3.FleetWorkspaceConditionReady, status, reason, message)
		return w
	}
	held := workspace("False", "ClustersInWorkspace", "delete team-a/demo first")
	expect(t, WorkspaceChanged(workspace("True", "", ""), held),
		"FleetWorkspace team-a Warning WorkspaceQuestioned ClustersInWorkspace: delete team-a/demo first")
	expect(t, WorkspaceChanged(held, held))
	expect(t, WorkspaceChanged(held, workspace("Unknown", "Waiting", "Waiting until namespace team-a is deleted")))
}

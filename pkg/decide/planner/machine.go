package planner

import (
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// machine is a Machine with what follows from it, and its marks as they will be after this pass.
type machine struct {
	*Machine
	roles render.Roles
	marks Marks
	// state is its progress at the beginning of the pass.
	state State

	// The result of its tier: the desired plan, the server that it joins, and the change from its current plan.
	desired plan.NodePlan
	joins   string
	change  nodeplan.Change
	// agentPin is the agent in the desired plan.
	agentPin string
	found    finding
	// isUnavailable is true while the machine counts as unavailable: its plan is not applied, its node is drained, or
	// its probes fail although no change is pending. isUnhealthy is true when its probes fail, a change is pending, and
	// it is not isUnavailable.
	isUnavailable, isUnhealthy bool
	// keepsPlan is true when the machine keeps its current plan: this program cannot render its version, or no change
	// was requested since the machine was adopted.
	keepsPlan bool
	// isChangeRequested is true when a change was requested since the machine was adopted with its plan.
	isChangeRequested bool
	// read is its evidence, nil until first use.
	read *readEvidence
	// isStranded is true for a server whose node is lost for longer than the deadline while the server holds up others.
	isStranded bool
	// isDeferred is true when only release data changed, so the restart waits for the next user change.
	isDeferred bool
	// getsPlan is true when this pass delivers a plan to the machine. getsDrain is true when this pass requests its
	// drain, or ends its drain before its change.
	getsPlan, getsDrain bool
}

func newMachine(m *Machine) *machine {
	return &machine{
		Machine: m, roles: rolesOf(m.Labels), marks: m.Marks, state: stateOf(m.Plan), agentPin: m.Marks.AgentPin,
	}
}

// gone reports that only the object of a machine is left. Cluster API deletes the host, then the plan Secret goes, and
// then Cluster API tries to delete the Node. That fails while the cluster does not answer. Drover does not wait for it.
func (m *Machine) gone() bool {
	return m.Deleting && !m.Held && !m.InfrastructureReady && m.Plan == nil
}

func rolesOf(labels map[string]string) render.Roles {
	return render.Roles{
		ETCD:         labels[rkev1.EtcdRoleLabel] == rkev1.RoleLabelValue,
		ControlPlane: labels[rkev1.ControlPlaneRoleLabel] == rkev1.RoleLabelValue,
		Worker:       labels[rkev1.WorkerRoleLabel] == rkev1.RoleLabelValue,
	}
}

func isEtcd(m *machine) bool         { return m.roles.ETCD }
func isControlPlane(m *machine) bool { return m.roles.ControlPlane }
func isWorker(m *machine) bool       { return m.roles.Worker }
func isLive(m *machine) bool         { return !m.Deleting }
func isDeleting(m *machine) bool     { return m.Deleting }

// gotPlan reports that the machine got a plan at some time, whatever its Secret holds now.
func (m *machine) gotPlan() bool {
	return m.Marks.RenderVersion != "" || m.Plan != nil && m.Plan.State.PlanExists
}

// canBeInit reports that the machine can start a cluster: it has etcd, it is alive, and its host exists.
func (m *machine) canBeInit() bool {
	return m.roles.ETCD && !m.Deleting && m.Phase != phaseFailed && m.InfrastructureReady
}

// phaseFailed is the phase of a Machine that Cluster API has given up.
const phaseFailed = "Failed"

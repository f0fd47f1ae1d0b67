package provisioningcluster

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/machinejob"
	"github.com/drover-io/drover/pkg/decide/outcome"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// removal is the progress of deleting a cluster's Cluster API objects.
type removal struct {
	// done means that no object remains.
	done bool
	// end says what the deletion waits for, or the problem. A short wait has none.
	end error
}

// progress returns what the deletion waits for. User interfaces and scripts read the texts
// (docs/wire/capi.md#deletion).
func (f *Facts) progress(deadline time.Duration) removal {
	// Wait only for objects that a controller deletes. Live objects of other owners with the same name are unrelated.
	cluster, core, plane := f.input.Cluster, f.capiCluster, f.controlPlane
	coreGoes := core != nil && goes(cluster, core)
	switch {
	case coreGoes && pausedByUser(core):
		return removal{end: outcome.Wait(machinejob.ReasonPaused, "the Cluster API cluster ["+core.Name+
			"] is paused and nothing of it is deleted: set its spec.paused to false and remove its annotation "+
			clusterv1.PausedAnnotation, "Cluster API Cluster")}
	case len(f.machines) > 0 && (core == nil || coreGoes):
		return removal{end: f.machineProgress(deadline)}
	case coreGoes || plane != nil && goes(cluster, plane):
		return removal{end: f.remainderProgress(deadline)}
	}
	return removal{done: true}
}

// pausedByUser excludes the pause of an operation, which ends when the cluster is deleted.
func pausedByUser(core *clusterv1.Cluster) bool {
	return topology.IsPaused(core, core) && core.Annotations[rkev1.PausedByOperationAnnotation] == ""
}

// The order in which machines are named. The first kinds need a person.
const (
	rankStuck = iota
	rankOverdue
	rankPaused
	rankDelayed
	rankInProgress
)

// wait is what the deletion of a machine waits for.
type wait struct {
	machine  *clusterv1.Machine
	obstacle machinejob.Obstacle
	// left is the time until the machine is overdue.
	left time.Duration
	rank int
}

// machineProgress returns what the deletion of the machines waits for. It names the first machine of the first rank.
func (f *Facts) machineProgress(deadline time.Duration) error {
	first, after := f.waitOf(f.machines[0], deadline), time.Duration(0)
	for _, m := range f.machines {
		w := f.waitOf(m, deadline)
		if w.rank < first.rank {
			first = w
		}
		if w.rank > rankPaused && (after == 0 || w.left < after) {
			after = w.left // another machine may become overdue
		}
	}
	name, obstacle := first.machine.Name, first.obstacle
	text := "waiting for machine [" + name + "] to delete"
	deleting := conditions.GetMeta(first.machine.Status.Conditions, clusterv1.MachineDeletingCondition)
	switch {
	case first.rank == rankStuck:
		return outcome.Stall(obstacle.Reason, text+": "+obstacle.Message)
	case deleting != nil && deleting.Reason == clusterv1.MachineDeletingInternalErrorReason:
		return outcome.Stall("", "error deleting machine ["+name+"], machine must be deleted manually")
	case first.rank == rankOverdue:
		return outcome.Stall(reasonOverdue, overdue(text, deleting, obstacle.Message))
	case first.rank == rankPaused:
		return outcome.WaitFor(obstacle.Reason, text+": "+obstacle.Message, "Machine", after)
	case first.rank == rankDelayed:
		text += ": " + obstacle.Message
	}
	return outcome.WaitFor("", text, "Machine", after)
}

// waitOf returns what the deletion of a machine waits for. A paused machine is never overdue.
func (f *Facts) waitOf(machine *clusterv1.Machine, deadline time.Duration) wait {
	since := machine.DeletionTimestamp
	if since.IsZero() {
		since = f.input.Cluster.DeletionTimestamp
	}
	w := wait{machine: machine, obstacle: obstacleOf(machine), left: since.Add(deadline).Sub(f.now)}
	switch {
	case w.obstacle.Stuck:
		w.rank = rankStuck
	case w.obstacle.Reason == machinejob.ReasonPaused:
		w.rank = rankPaused
	case w.left <= 0:
		w.rank = rankOverdue
	case w.obstacle.Message != "":
		w.rank = rankDelayed
	default:
		w.rank = rankInProgress
	}
	return w
}

// obstacleOf returns what delays the deletion of a machine. Cluster API copies condition Ready of the host's object,
// except while the Machine itself is paused.
func obstacleOf(machine *clusterv1.Machine) machinejob.Obstacle {
	if machine.DeletionTimestamp.IsZero() {
		return machinejob.Obstacle{}
	}
	if topology.IsPaused(nil, machine) {
		return machinejob.Obstacle{Reason: machinejob.ReasonPaused, Message: "the Machine is paused. Remove its " +
			"annotation " + clusterv1.PausedAnnotation}
	}
	ready := conditions.GetMeta(machine.Status.Conditions, clusterv1.MachineInfrastructureReadyCondition)
	if ready == nil || ready.Status == metav1.ConditionTrue {
		return machinejob.Obstacle{}
	}
	ref := machine.Spec.InfrastructureRef
	return machinejob.ObstacleOf(ref.Kind, ref.Name, ready.Reason, ready.Message)
}

// remainderProgress returns what the deletion waits for after the machines are gone.
func (f *Facts) remainderProgress(deadline time.Duration) error {
	cluster := f.input.Cluster
	text := "waiting for cluster-api cluster [" + cluster.Name + "] to delete"
	left := cluster.DeletionTimestamp.Add(deadline).Sub(f.now)
	if left > 0 {
		return outcome.WaitFor("", text, "Cluster API Cluster, RKEControlPlane", left)
	}
	var deleting *metav1.Condition
	if f.capiCluster != nil {
		deleting = conditions.GetMeta(f.capiCluster.Status.Conditions, clusterv1.ClusterDeletingCondition)
	}
	return outcome.Stall(reasonOverdue, overdue(text, deleting, ""))
}

// overdue is the message of a deletion that takes too long. It repeats what Cluster API and the host's object say.
func overdue(text string, deleting *metav1.Condition, obstacle string) string {
	text += ": it should be gone by now"
	if deleting != nil && deleting.Message != "" {
		text += ". Its condition Deleting says: " + strings.Join(strings.Fields(outcome.Stable(deleting.Message)), " ")
	}
	if obstacle != "" {
		text += ". " + obstacle
	}
	return text + ". drover diagnose names what holds it"
}

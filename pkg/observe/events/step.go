package events

import (
	"fmt"
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// Step is what a machine does in the normal life of its cluster. Many machines of a cluster take the same step within
// seconds, so that one Event on the Cluster is for all of them: see Batch.
type Step struct {
	// Machine is the name of the machine.
	Machine string
	// Kind is equal for steps that one Event may be for.
	Kind string

	one, many string
}

// step adds an Event for a step of a machine. The texts are formats, for the name of one machine and for a number of
// machines.
func (l *list) step(reason Reason, machine, one, many string) {
	l.normal(reason, fmt.Sprintf(one, machine))
	l.events[len(l.events)-1].Step = &Step{Machine: machine, Kind: string(l.object.UID) + " " + string(reason) + " " +
		many, one: one, many: many}
}

// examples is the number of machines that a message names.
const examples = 5

// Batch collects Events of one kind of step. The zero value is empty.
type Batch struct {
	first    Event
	machines []string
}

// Add adds an Event with a Step. All of them must have the same Kind.
func (b *Batch) Add(e Event) {
	if len(b.machines) == 0 {
		b.first = e
	}
	if !slices.Contains(b.machines, e.Step.Machine) {
		b.machines = append(b.machines, e.Step.Machine)
	}
}

// Empty reports whether nothing was added.
func (b *Batch) Empty() bool { return len(b.machines) == 0 }

// Event returns one Event for all: "3 machines are ready: a, b, c". It names a few machines of many.
func (b *Batch) Event() Event {
	e := b.first
	if len(b.machines) < 2 {
		return e
	}
	names := slices.Sorted(slices.Values(b.machines))
	more := ""
	if left := len(names) - examples; left > 0 {
		names, more = names[:examples], fmt.Sprintf(" and %d more", left)
	}
	e.Message = bounded(fmt.Sprintf(b.first.Step.many, len(b.machines)) + ": " + strings.Join(names, ", ") + more)
	e.Step = nil
	return e
}

// MachineCreated returns the events of a new Machine.
func MachineCreated(cluster *provv1.Cluster, machine *clusterv1.Machine) []Event {
	l := about(clusterKind, cluster)
	l.step(ReasonMachineCreated, machine.Name, "Machine %s is created", "%d machines are created")
	return l.events
}

// MachineRemoved returns the events of a removed Machine. A Machine that is removed with its Cluster causes none.
func MachineRemoved(cluster *provv1.Cluster, machine *clusterv1.Machine) []Event {
	if !cluster.DeletionTimestamp.IsZero() {
		return nil
	}
	l := about(clusterKind, cluster)
	l.step(ReasonMachineRemoved, machine.Name, "Machine %s was removed", "%d machines were removed")
	return l.events
}

// joining adds the steps of a machine that is being created.
func (l *list) joining(condition func(string) transition, before, after *clusterv1.Machine) {
	made := condition(clusterv1.MachineInfrastructureReadyCondition)
	if made.became(rkev1.ConditionTrue) && !hasJobs(after) {
		l.step(ReasonInfrastructureReady, after.Name, "Machine %s has a host", "%d machines have a host")
	}
	if !before.Status.NodeRef.IsDefined() && after.Status.NodeRef.IsDefined() {
		name := after.Name
		if node := after.Status.NodeRef.Name; node != name {
			name += " (node " + node + ")"
		}
		l.step(ReasonNodeRegistered, name, "Machine %s is a node", "%d machines are nodes")
	}
	if ready := condition(clusterv1.MachineReadyCondition); ready.became(rkev1.ConditionTrue) {
		l.step(ReasonMachineReady, after.Name, "Machine %s is ready", "%d machines are ready")
	}
}

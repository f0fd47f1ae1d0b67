package server

import (
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-io/drover/pkg/observe/tracing"
)

// tracer creates the traces of this instance's machines.
type tracer struct {
	*tracing.Machines
	lookup
}

// trace returns the tracer of a term, or nil without a provider.
func (s *Server) trace(in lookup) *tracer {
	if s.opts.TracerProvider == nil {
		return nil
	}
	return &tracer{tracing.NewMachines(s.opts.TracerProvider), in}
}

func (t *tracer) ours(machine *clusterv1.Machine) bool {
	return t.cluster(machine.Namespace, machine.Spec.ClusterName) != nil
}

func (t *tracer) machineSeen(machine *clusterv1.Machine) {
	if t.ours(machine) {
		t.MachineSeen(machine)
	}
}

func (t *tracer) machineChanged(_, machine *clusterv1.Machine) {
	if t.ours(machine) {
		t.MachineSeen(machine) // its cluster may have been foreign before
		t.MachineChanged(machine, t.plan(machine))
	}
}

func (t *tracer) planChanged(before, after *corev1.Secret) {
	if machine := t.machineOf(after); machine != nil {
		t.PlanChanged(machine, before, after)
	}
}

package planner

import (
	"encoding/json"
	"strings"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/planner/render"
)

// inDrain reports that a drain was asked for and has not been ended.
func (m *machine) inDrain() bool {
	return m.Plan.Drain.Requested != "" || m.Plan.Drain.Uncordon != ""
}

// drainFirst drains the node of a machine before it gets its plan, if the plan asks for that. It returns nothing when the plan may be
// delivered.
func (r *rollOut) drainFirst(m *machine) finding {
	options, needed := r.drainOptions(m)
	if !needed || m.roles.OnlyWorker() && !m.NodeLostSince.IsZero() && r.overdue(m.NodeLostSince) {
		return finding{} // of a node that is lost for that long the pods have been evicted, and it would confirm nothing
	}
	drain := m.Plan.Drain
	if drain.Requested != options || drain.Uncordon != "" {
		delivery, found := r.tier.encode(m)
		if found.message != "" {
			return found // nobody is drained for a plan that cannot be delivered
		}
		r.drain = append(r.drain, RequestDrain{Machine: m.Name, Secret: m.Plan.Name, Options: options})
		r.addTicket(r.tier.ticket, m, delivery.Checksum, false)
		return finding{msgDraining, ReasonDraining}
	}
	if drain.Done == options {
		return finding{}
	}
	return finding{drainMessage(drain, msgDraining), ReasonDraining}
}

// undrain ends a drain once the machine works with its plan.
func (r *rollOut) undrain(m *machine) finding {
	drain := m.Plan.Drain
	if drain.Requested != "" && drain.Uncordon != drain.Requested {
		r.drain = append(r.drain, RequestUncordon{Machine: m.Name, Secret: m.Plan.Name, Options: drain.Requested})
		return finding{msgUncordon, ReasonUncordoning}
	}
	return finding{drainMessage(drain, msgUncordon), ReasonUncordoning}
}

// drainMessage is what the drainer says is wrong, or what is waited for. A cluster that does not answer for a moment is no news.
func drainMessage(drain Drain, otherwise string) string {
	if drain.Error == "" || strings.Contains(drain.Error, "error trying to reach service") {
		return otherwise
	}
	return otherwise + ": " + clip(drain.Error)
}

// drainOptions are what to ask the drainer for, as JSON with sorted keys; needed is false when the change needs no drain: there is no
// node, nothing to do, or the same drain hash as in the plan that was applied last.
func (p *pass) drainOptions(m *machine) (options string, needed bool) {
	spec := p.s.ControlPlane.Spec.UpgradeStrategy.WorkerDrainOptions
	if m.roles.Server() {
		spec = p.s.ControlPlane.Spec.UpgradeStrategy.ControlPlaneDrainOptions
	}
	spec.Enabled = spec.Enabled && !p.lastOfItsKind(m)
	if !m.HasNode || !spec.Enabled && len(spec.PreDrainHooks)+len(spec.PostDrainHooks) == 0 || m.Plan.State.AppliedPlan == nil {
		return "", false
	}
	before := render.StampsOf(*m.Plan.State.AppliedPlan).Drain
	if before == "" || before == render.StampsOf(m.desired).Drain {
		return "", false
	}
	return encodeDrain(spec), true
}

// lastOfItsKind reports that a machine is the only one with etcd, or with the control plane: the cluster would be without while its pods
// are away. The only machine of a cluster is both.
func (p *pass) lastOfItsKind(m *machine) bool {
	others := func(filter func(*machine) bool) int {
		return len(p.collect(isLive, filter, func(o *machine) bool { return o != m }))
	}
	return m.roles.ETCD && others(isEtcd) == 0 || m.roles.ControlPlane && others(isControlPlane) == 0
}

// encodeDrain is the marker that hook owners compare: all keys sorted.
func encodeDrain(options rkev1.DrainOptions) string {
	fields := map[string]any{}
	data, err := json.Marshal(options)
	if err == nil {
		err = json.Unmarshal(data, &fields)
	}
	if err == nil {
		data, err = json.Marshal(fields)
	}
	if err != nil {
		return "{}" // options are plain values: this does not happen
	}
	return string(data)
}

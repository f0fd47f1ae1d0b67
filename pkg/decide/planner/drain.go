package planner

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/pkg/decide/redact"
)

// drainGrace is the time that a drain may take in addition to the timeout of its options. It is also the time for the
// end of a drain. After it, the user has to decide.
const drainGrace = 5 * time.Minute

// Advice for the user about a drain that does not end.
const (
	msgDrainOverdue      = "; asked for since %s. " + msgDrainSkip
	msgDrainOverdueAfter = "; asked for some time after %s. " + msgDrainSkip
	msgDrainSkip         = "Annotate the Machine " + rkev1.DrainSkipAnnotation + "=true to go on without it"
)

// isInDrain reports that a drain was requested and has not ended. With SkipDrain, Drover does not wait for its end.
func (m *machine) isInDrain() bool {
	drain := m.Plan.Drain
	return drain.Requested != "" && drain.Uncordon == "" || drain.Uncordon != "" && !m.SkipDrain
}

// isDone reports that a node is drained and stays drained.
func (d Drain) isDone() bool { return d.Requested != "" && d.Done == d.Requested && d.Uncordon == "" }

// drainer decides which nodes are drained before a change, and how long that may take.
type drainer struct{ *cluster }

// overdueDrain is the finding about a drain, or its end, that exceeds its limit. A cluster whose API does not answer
// never drains a node. Drover does not go on by itself, because the pods may be in use.
func (d *drainer) overdueDrain(m *machine, limit time.Duration, found finding) finding {
	since, told := m.Plan.Drain.Since, msgDrainOverdue
	if since.IsZero() { // another program requested it without a time: later than the delivery of the current plan
		since, told = m.Plan.DeliveredAt, msgDrainOverdueAfter
	}
	if since.IsZero() || !d.isOverdueBy(since, limit) {
		return found
	}
	return finding{found.message + fmt.Sprintf(told, stamp(since)), ReasonDrainOverdue}
}

// drainLimit is how long a drain with these options may take.
func (d *drainer) drainLimit(m *machine) time.Duration {
	options := d.s.ControlPlane.Spec.UpgradeStrategy.WorkerDrainOptions
	if m.roles.Server() {
		options = d.s.ControlPlane.Spec.UpgradeStrategy.ControlPlaneDrainOptions
	}
	timeout := time.Duration(options.Timeout) * time.Second
	if timeout <= 0 {
		timeout = lostAfter // the drainer's own timeout
	}
	return timeout + drainGrace
}

// drainFirst drains the node of a machine before the delivery of its plan, if the plan asks for that. It returns an
// empty finding when the plan may be delivered.
func (r *rollOut) drainFirst(m *machine, delivery Delivery) finding {
	options, needed := r.drains.toDrain(m)
	if !needed {
		return finding{}
	}
	drain := m.Plan.Drain
	if drain.Requested != options || drain.Uncordon != "" {
		m.getsDrain = true
		cause := r.causes.causeOf(m)
		r.drain = append(r.drain, RequestDrain{Machine: m.Name, Secret: m.Plan.Name, At: r.s.Now, Options: options,
			Cause: cause})
		r.addTicket(r.tier.ticket, m, delivery.Checksum, string(cause))
		return finding{msgDraining, ReasonDraining}
	}
	if drain.Done == options {
		return finding{}
	}
	return r.drains.overdueDrain(m, r.drains.drainLimit(m), finding{drainMessage(drain, msgDraining), ReasonDraining})
}

// toDrain returns drainOptions for a machine, unless the drain is unnecessary. An operator may skip it. The pods of a
// node that is lost for long have been evicted, and that node would confirm nothing.
func (d *drainer) toDrain(m *machine) (options string, needed bool) {
	isGone := m.roles.OnlyWorker() && !m.NodeLostSince.IsZero()
	if m.SkipDrain || isGone && d.hasMissed(m, m.NodeLostSince) || d.cannotDrainYet(m) {
		return "", false
	}
	return d.drainOptions(m)
}

// cannotDrainYet reports a server that cannot be drained yet. The drainer needs the kubeconfig that a server prints by
// Drover's plan. In a cluster of another manager, no server has such a plan yet. Drains with hooks are never skipped.
func (d *drainer) cannotDrainYet(m *machine) bool {
	if d.s.ClusterAgent.OnlyWay && d.s.Connected {
		return false // through its agent
	}
	options := d.s.ControlPlane.Spec.UpgradeStrategy.ControlPlaneDrainOptions
	if m.marks.RenderVersion != AsFound || !m.roles.Server() ||
		len(options.PreDrainHooks)+len(options.PostDrainHooks) > 0 {
		return false
	}
	return len(d.collect(isLive, isControlPlane, printsKubeconfig)) == 0
}

// printsKubeconfig reports that a server's applied plan prints its kubeconfig.
func printsKubeconfig(m *machine) bool {
	if m.Plan == nil || m.Plan.State.AppliedPlan == nil {
		return false
	}
	return slices.ContainsFunc(m.Plan.State.AppliedPlan.PeriodicInstructions, func(i plan.PeriodicInstruction) bool {
		return i.Name == render.CaptureKubeconfig
	})
}

// undrain ends a drain once the machine works with its plan.
func (r *rollOut) undrain(m *machine) finding {
	drain := m.Plan.Drain
	if drain.Requested != "" && drain.Uncordon != drain.Requested {
		r.drain = append(r.drain, RequestUncordon{Machine: m.Name, Secret: m.Plan.Name, At: r.s.Now,
			Options: drain.Requested})
		return finding{msgUncordon, ReasonUncordoning}
	}
	return r.drains.overdueDrain(m, drainGrace, finding{drainMessage(drain, msgUncordon), ReasonUncordoning})
}

// drainMessage is the drainer's error, or what Drover waits for. It leaves out that the cluster does not answer for a
// moment.
func drainMessage(drain Drain, otherwise string) string {
	if drain.Error == "" || strings.Contains(drain.Error, "error trying to reach service") {
		return otherwise
	}
	return otherwise + ": " + redact.Clip(drain.Error, maxTail)
}

// drainOptions are the options of the requested drain, as JSON with sorted keys. needed is false when the change needs
// no drain: there is no node, nothing to do, or the drain hash equals that of the last applied plan.
func (d *drainer) drainOptions(m *machine) (options string, needed bool) {
	spec := d.s.ControlPlane.Spec.UpgradeStrategy.WorkerDrainOptions
	if m.roles.Server() {
		spec = d.s.ControlPlane.Spec.UpgradeStrategy.ControlPlaneDrainOptions
	}
	spec.Enabled = spec.Enabled && !d.isLastOfRole(m)
	if !m.HasNode || !spec.Enabled && len(spec.PreDrainHooks)+len(spec.PostDrainHooks) == 0 ||
		m.Plan.State.AppliedPlan == nil {
		return "", false
	}
	before := render.StampsOf(*m.Plan.State.AppliedPlan).Drain
	if before == "" || before == render.StampsOf(m.desired).Drain {
		return "", false
	}
	return encodeDrain(spec), true
}

// isLastOfRole reports that a machine is the only one with etcd, or with the control plane. The cluster would lack
// that role while its pods are away. The only machine of a cluster is both.
func (c *cluster) isLastOfRole(m *machine) bool {
	others := func(filter func(*machine) bool) int {
		return len(c.collect(isLive, filter, func(o *machine) bool { return o != m }))
	}
	return m.roles.ETCD && others(isEtcd) == 0 || m.roles.ControlPlane && others(isControlPlane) == 0
}

// encodeDrain encodes the marker that hook owners compare: JSON with sorted keys.
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

package tracing

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

const scope = "github.com/drover-io/drover"

// Names of spans. Queries use them.
const (
	spanMachine        = "machine"
	spanBootstrapData  = "bootstrap data"
	spanInfrastructure = "infrastructure"
	spanAgent          = "agent"
	spanPlan           = "plan"
	spanNode           = "node"
	spanReady          = "ready"
)

// Machines creates the traces of machines, from changes of machines and plans in caches.
type Machines struct {
	tracer trace.Tracer
	// derived: the provider derives identifiers from names.
	derived bool
	now     func() time.Time

	mu sync.Mutex
	// awaited are the machines that have not been ready, with the time of their agent's first report.
	awaited map[types.UID]time.Time
}

// NewMachines creates traces with a provider. A provider other than *Provider chooses the identifiers of spans itself.
// The trace still gets Drover's identifier, from a parent span that does not exist.
func NewMachines(provider trace.TracerProvider) *Machines {
	_, derived := provider.(*Provider)
	return &Machines{tracer: provider.Tracer(scope), derived: derived, now: time.Now,
		awaited: map[types.UID]time.Time{}}
}

// MachineSeen must be called for every Machine in a cache, including those of the initial list.
func (m *Machines) MachineSeen(machine *clusterv1.Machine) {
	if wasReady(machine) || !machine.DeletionTimestamp.IsZero() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.awaited[machine.UID]; !known {
		m.awaited[machine.UID] = time.Time{}
	}
}

// wasReady reports whether a machine is ready or was before. It was if it became unready after it had a node.
func wasReady(machine *clusterv1.Machine) bool {
	ready := conditions.GetMeta(machine.Status.Conditions, clusterv1.MachineReadyCondition)
	if ready == nil || !machine.Status.NodeRef.IsDefined() {
		return false
	}
	return ready.Status == metav1.ConditionTrue || ready.LastTransitionTime.After(machine.Status.LastUpdated.Time)
}

// MachineChanged creates the trace of a machine that is ready, or that is removed before. plan is its plan Secret, nil
// if there is none.
func (m *Machines) MachineChanged(machine *clusterv1.Machine, plan *corev1.Secret) {
	switch {
	case !machine.DeletionTimestamp.IsZero():
		if agent, awaited := m.take(machine.UID); awaited {
			m.make(machine, stagesOf(machine, plan, agent), machine.DeletionTimestamp.Time,
				"removed before it was ready")
		}
	case conditions.IsTrueMeta(machine.Status.Conditions, clusterv1.MachineReadyCondition) && isHealthy(plan):
		if agent, awaited := m.take(machine.UID); awaited {
			end := conditions.GetMeta(machine.Status.Conditions,
				clusterv1.MachineReadyCondition).LastTransitionTime.Time
			m.make(machine, stagesOf(machine, plan, agent), end, "")
		}
	}
}

// PlanChanged records the first report of an agent. It creates the trace of a machine that was ready before its plan
// passed all probes.
func (m *Machines) PlanChanged(machine *clusterv1.Machine, before, after *corev1.Secret) {
	if !reported(before) && reported(after) {
		m.mu.Lock()
		if at, awaited := m.awaited[machine.UID]; awaited && at.IsZero() {
			m.awaited[machine.UID] = m.now()
		}
		m.mu.Unlock()
	}
	if !isHealthy(before) && isHealthy(after) {
		m.MachineChanged(machine, after)
	}
}

// MachineRemoved forgets a machine.
func (m *Machines) MachineRemoved(machine *clusterv1.Machine) { m.take(machine.UID) }

func (m *Machines) take(uid types.UID) (agent time.Time, awaited bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	agent, awaited = m.awaited[uid]
	delete(m.awaited, uid)
	return agent, awaited
}

// isHealthy reports whether a plan was applied and has passed its probes.
func isHealthy(plan *corev1.Secret) bool {
	return plan != nil && plan.Annotations[rkev1.PlanProbesPassedAnnotation] != ""
}

// reported reports whether an agent has written to a plan Secret.
func reported(plan *corev1.Secret) bool {
	for _, key := range []string{nodeplan.KeyLastApplyTime, nodeplan.KeyAppliedChecksum, nodeplan.KeyFailedChecksum,
		nodeplan.KeyProbeStatuses} {
		if len(plan.Data[key]) > 0 {
			return true
		}
	}
	return false
}

// stage is one span below that of the machine.
type stage struct {
	name       string
	begin, end time.Time
}

// stagesOf returns the stages of a machine whose times are known.
func stagesOf(machine *clusterv1.Machine, plan *corev1.Secret, agent time.Time) []stage {
	created := machine.CreationTimestamp.Time
	since := func(kind string) time.Time {
		if c := conditions.GetMeta(machine.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
		return time.Time{}
	}
	host := since(clusterv1.MachineInfrastructureReadyCondition)
	var node, delivered, passed time.Time
	if machine.Status.NodeRef.IsDefined() {
		node = machine.Status.LastUpdated.Time // the phase changed with the node, and not since
	}
	if plan != nil {
		delivered, _ = time.Parse(time.RFC3339, plan.Annotations[rkev1.PlanUpdatedTimeAnnotation])
		passed, _ = time.Parse(time.RFC3339, plan.Annotations[rkev1.PlanProbesPassedAnnotation])
	}
	var out []stage
	for _, s := range []stage{
		{spanBootstrapData, created, since(clusterv1.MachineBootstrapConfigReadyCondition)},
		{spanInfrastructure, created, host},
		{spanAgent, host, agent},
		{spanPlan, delivered, passed},
		{spanNode, host, node},
		{spanReady, node, since(clusterv1.MachineReadyCondition)},
	} {
		if !s.begin.IsZero() && !s.end.IsZero() {
			if s.end.Before(s.begin) {
				s.end = s.begin // times of objects have whole seconds
			}
			out = append(out, s)
		}
	}
	return out
}

// make creates a trace. It ends with the last stage of the machine. failed is the error of an unsuccessful machine.
func (m *Machines) make(machine *clusterv1.Machine, stages []stage, end time.Time, failed string) {
	for _, s := range stages {
		if s.end.After(end) {
			end = s.end
		}
	}
	ctx := context.Background()
	if !m.derived {
		ctx = trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: TraceID(machine.UID), SpanID: spanID(machine.UID, ""), TraceFlags: trace.FlagsSampled,
			Remote: true,
		}))
	}
	named := func(ctx context.Context, name string) context.Context {
		return context.WithValue(ctx, spanKey{}, span{machine.UID, name})
	}
	ctx, whole := m.tracer.Start(named(ctx, spanMachine), spanMachine,
		trace.WithTimestamp(machine.CreationTimestamp.Time), trace.WithAttributes(
			attribute.String("k8s.namespace.name", machine.Namespace),
			attribute.String("drover.cluster", machine.Spec.ClusterName),
			attribute.String("drover.machine", machine.Name),
			attribute.String("drover.machine.uid", string(machine.UID)),
			attribute.String("drover.pool", machine.Labels[clusterv1.MachineDeploymentNameLabel]),
			attribute.String("drover.node", machine.Status.NodeRef.Name),
		))
	for _, s := range stages {
		_, part := m.tracer.Start(named(ctx, s.name), s.name, trace.WithTimestamp(s.begin))
		part.End(trace.WithTimestamp(s.end))
	}
	if failed != "" {
		whole.SetStatus(codes.Error, failed)
	}
	whole.End(trace.WithTimestamp(end))
}

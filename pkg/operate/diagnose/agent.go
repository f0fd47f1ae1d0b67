package diagnose

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// agentLogs says where to find the agent's log.
const agentLogs = "see its log on the host: journalctl -u rancher-system-agent"

// maxTail is the limit for a failed instruction's output, in bytes.
const maxTail = 300

func (w *World) plan(m *Machine) Link {
	l := link(LinkPlan, "Secret "+w.Namespace+"/"+naming.PlanSecret(m.Spec.Bootstrap.ConfigRef.Name))
	switch {
	case !m.ours():
		return l
	case m.Known == nil && w.Unread["plans"] != "":
		return l.unknown(w.Unread["plans"])
	case m.Known == nil || m.Known.Plan == nil:
		return l.waiting(w, "its plan Secret does not exist", m.CreationTimestamp.Time, briefly,
			serverLogs()).until("the server", "RKEBootstrap", "Secret (plan)")
	case m.Known.Plan.Malformed != "":
		return l.broken("its plan Secret cannot be read", "correct the problem in the Secret").because("",
			m.Known.Plan.Malformed).
			until("the Secret", "Secret (plan)")
	case !m.Known.Plan.State.PlanExists:
		return w.noPlan(m, l)
	}
	return l
}

// noPlan returns the link of a machine that has no plan yet. It waits for its turn, or something blocks it.
func (w *World) noPlan(m *Machine, l Link) Link {
	l = l.waiting(w, "it has no plan yet", time.Time{}, 0).until("the planner", "RKEControlPlane", "Machine",
		"Secret (plan)")
	l.Do = []string{w.explain()}
	if m.Explained != nil {
		l.Why = m.Explained.Message
	}
	if l.Why == "" && w.Decision != nil && w.Decision.Wait != nil {
		l = l.because(string(w.Decision.Wait.Reason), w.Decision.Wait.Message)
	}
	if w.anotherComesFirst(m) {
		l.State = Behind
	}
	return l
}

// anotherComesFirst reports whether another machine has a plan and has not finished it. Then this machine waits for its
// turn.
func (w *World) anotherComesFirst(m *Machine) bool {
	return slices.ContainsFunc(w.Machines, func(other Machine) bool {
		return other.Name != m.Name && other.Known != nil && other.Known.Plan != nil &&
			other.Known.Plan.State.PlanExists && !other.Known.Plan.State.Works()
	})
}

// agent checks whether the agent on the host applies the plan.
func (w *World) agent(m *Machine) Link {
	l := link(LinkAgent, "agent of "+m.Name)
	if m.Known == nil || m.Known.Plan == nil || !m.Known.Plan.State.PlanExists || m.Known.Plan.Malformed != "" {
		return l
	}
	plan := m.Known.Plan
	state := &plan.State
	last := lastReport(state)
	heard := last != "" || state.AppliedChecksum != "" || state.FailedChecksum != ""
	switch {
	case !heard:
		return w.silent(m, l)
	case failing(state):
		return w.failing(m, l)
	case !state.InSync:
		return l.waiting(w, "it has not applied its plan yet; its last report: "+orNever(last), plan.DeliveredAt,
			patiently,
			"check that the host runs and reaches the server: drover ping URL, on the host", agentLogs).
			until("the agent's report", "Secret (plan)")
	case state.Works():
		return l
	}
	return l.waiting(w, "probes do not pass: "+strings.Join(unhealthy(state), ", "), plan.DeliveredAt, patiently,
		"see the component's log on the host: crictl ps -a, "+
			"journalctl -u rke2-server -u rke2-agent -u k3s -u k3s-agent", agentLogs).
		until("the agent's report", "Secret (plan)")
}

// silent returns the link of an agent that has never reported.
func (w *World) silent(m *Machine, l Link) Link {
	ping := "check that the host reaches the server: drover ping URL, on the host"
	since := m.Known.Plan.DeliveredAt
	if m.Labels[rkev1.MachineIDLabel] != "" {
		return l.waiting(w, "it has connected, but has not reported on its plan yet", since, patiently, agentLogs,
			ping).until("the agent's report", "Secret (plan)")
	}
	if !m.TokenUsed.IsZero() {
		return l.waiting(w,
			"the install script has requested the agent's connection, but the agent has not reported yet",
			sooner(since, m.TokenUsed), patiently, agentLogs, ping).
			until("the agent's report", "Secret (plan)")
	}
	return l.waiting(w, "it has never connected", since, patiently, ping,
		"check that the install script has run on the host: cloud-init status --long, journalctl -u cloud-final",
		agentLogs).until("the agent", "Machine", "Secret (plan)")
}

// failing reports whether the current plan has failed, according to the agent's last report.
func failing(state *nodeplan.State) bool {
	return state.Failed || state.FailureCount > 0 && state.FailedChecksum == state.Checksum && !state.InSync
}

func (w *World) failing(m *Machine, l Link) Link {
	state := &m.Known.Plan.State
	what := "its plan fails"
	failure, ok := nodeplan.FailureOf(state.FailedOutput)
	if ok {
		what += " at instruction " + failure.Instruction
	}
	if failure.ExitCode != 0 {
		what += fmt.Sprintf(", exit code %d", failure.ExitCode)
	}
	output := failure.Cause(state.FailedOutput)
	if state.FailureCount > 1 {
		what += fmt.Sprintf(", tried %d times", state.FailureCount)
	}
	do := []string{"fix the cause that the output shows, in the Cluster or on the host", agentLogs}
	if state.MaxFailures > 0 && state.FailureCount >= state.MaxFailures {
		what += "; the node has given up"
		do = append(do, "retry the plan: kubectl -n "+w.Namespace+" annotate machines.cluster.x-k8s.io "+m.Name+" "+
			rkev1.RetryAnnotation+"=true")
	}
	l = l.broken(what, do...).since(m.Known.Plan.DeliveredAt).until("the node's next attempt", "Secret (plan)")
	l.Why = redactTail(output, w)
	return l
}

// lastReport is when the agent last applied a plan, according to the agent.
func lastReport(state *nodeplan.State) string {
	at, err := time.Parse(time.UnixDate, state.LastApplyTime)
	if err != nil {
		return state.LastApplyTime
	}
	return at.UTC().Format(time.RFC3339)
}

func orNever(text string) string {
	if text == "" {
		return "never"
	}
	return text
}

// unhealthy returns the plan's probes that have not passed.
func unhealthy(state *nodeplan.State) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(state.Plan.Probes)) {
		if !state.ProbeStatuses[name].Healthy {
			out = append(out, name)
		}
	}
	return out
}

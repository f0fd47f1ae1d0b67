package planner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// AgentRequests are the requests to upgrade the agents of a cluster's nodes.
type AgentRequests struct {
	// Offer is the agent that this server offers, nil when it offers none.
	Offer *render.Agent `json:"offer,omitempty"`
	// Command is the text of the command. Every new text is a new request.
	Command string `json:"command,omitempty"`
	// Redeploy is the generation of redeployments, which other managers know.
	Redeploy int64 `json:"redeploy,omitempty"`
	// Auto is true when all machines follow the offer.
	Auto bool `json:"auto,omitempty"`
}

// answers reports that a pin answers all requests.
func (a AgentRequests) answers(pin render.AgentPin) bool {
	return (a.Command == "" || pin.Command == a.Command) && (a.Redeploy == 0 || pin.Redeploy == a.Redeploy) &&
		(!a.Auto || a.Offer == nil || pin.Auto == a.Offer.Identity())
}

// noted is a pin as the answer to all requests.
func (a AgentRequests) noted(pin render.AgentPin) render.AgentPin {
	pin.Command, pin.Redeploy, pin.Auto = a.Command, a.Redeploy, ""
	if a.Auto && a.Offer != nil {
		pin.Auto = a.Offer.Identity()
	}
	return pin
}

// ConditionAgentsUpgraded on an RKEControlPlane is False after an upgrade of an agent failed, and Unknown during one.
// Clusters without such an upgrade have no condition.
const ConditionAgentsUpgraded = "AgentsUpgraded"

// Reasons of that condition.
const (
	// ReasonAgentUpgradeFailed means that an upgrade of an agent failed. No other agent is upgraded.
	ReasonAgentUpgradeFailed = "AgentUpgradeFailed"
)

const (
	// agentDeadline is the time from the delivery of a plan to the report of the agent. The node itself goes back after
	// five minutes, but it waits for the plan that it is applying.
	agentDeadline = 20 * time.Minute
	// agentShare is the share of a cluster's agents that are upgraded at a time, after the first one.
	agentShare = 10
	msgAgent   = "upgrading the node agent of"
	msgSilent  = "its agent has not reported since "
)

// agentProgress is how far a machine is with its pinned agent.
type agentProgress int

const (
	agentAsIs    agentProgress = iota // no agent is pinned
	agentPending                      // the node has not reported a result
	agentDone
	agentFailed
)

// pinAgent notes which agent the desired plan of a machine should have. Commands pin machines in the last step. Here a
// machine without a plan answers all requests, because it was just installed. An edit of the cluster's variables
// reaches the running agent.
func (r *rollOut) pinAgent(m *machine) {
	if r.s.ControlPlane.Spec.UnmanagedConfig {
		return
	}
	if !m.gotPlan() {
		m.agentPin = r.s.Agents.noted(render.AgentPin{}).String()
		return
	}
	had, ok := m.evidence()
	if !ok || !r.causes.edited(had, r.causes.evidenceOf(m))["agentEnvVars"] {
		return
	}
	pin := render.ParseAgentPin(m.marks.AgentPin)
	if pin.Agent == nil || !r.awaitsAgent(m) {
		// The agent runs already, or has failed and must not hold back the edit. In both cases the server of that time
		// may have another address, authority and agent now.
		pin.Agent, pin.Environment = nil, true
	}
	pin.Names = append(slices.Clone(pin.Names), render.InstalledVariables(m.Plan.State.Plan)...)
	slices.Sort(pin.Names)
	pin.Names = slices.Compact(pin.Names)
	m.agentPin = pin.String()
}

// awaitsAgent reports that a machine may still start its pinned agent: its plan has no step for it yet, or the step has
// no result.
func (c *cluster) awaitsAgent(m *machine) bool {
	state := &m.Plan.State
	if !render.HasAgentStep(state.Plan) {
		return true
	}
	report, ok := nodeplan.ParseAgentUpgrade(state.AgentUpgrade)
	if ok && render.RequestsAgent(state.Plan, report.ID) {
		return false
	}
	return m.Plan.DeliveredAt.IsZero() || !c.isOverdueBy(m.Plan.DeliveredAt, agentDeadline)
}

// addAgentStep adds the step of the pinned agent to a plan that is kept for another reason.
func (r *rollOut) addAgentStep(m *machine) {
	m.desired = r.node(m).WithAgentStep(m.desired, render.ParseAgentPin(m.agentPin),
		r.s.ControlPlane.Spec.AgentEnvVars)
	if change := nodeplan.Compare(render.WithoutEtcdProof(m.Plan.State.Plan), m.desired); !m.keepsPlan ||
		change != nodeplan.ChangeNone {
		m.change = change
	}
}

// agentResult is how far a machine is with a pin, and why it failed.
func (c *cluster) agentResult(m *machine, pin render.AgentPin) (agentProgress, string) {
	step, ok := c.node(m).AgentStep(pin, c.s.ControlPlane.Spec.AgentEnvVars)
	if !ok || c.s.ControlPlane.Spec.UnmanagedConfig {
		return agentAsIs, ""
	}
	state := &m.Plan.State
	if report, ok := nodeplan.ParseAgentUpgrade(state.AgentUpgrade); ok && report.ID == step.ID {
		if report.Succeeded {
			return agentDone, ""
		}
		return agentFailed, report.Reason
	}
	switch {
	case !render.RequestsAgent(state.Plan, step.ID):
		return agentPending, ""
	case pin.Agent == nil && state.AgentVersion == "" && state.InSync:
		return agentDone, "" // an agent that cannot tell
	case !m.Plan.DeliveredAt.IsZero() && c.isOverdueBy(m.Plan.DeliveredAt, agentDeadline):
		return agentFailed, msgSilent + stamp(m.Plan.DeliveredAt)
	}
	return agentPending, ""
}

// agentReport is what the step found.
type agentReport struct {
	pending, failed []note
	// isStopped is true when a failure stops the present requests. succeeded are the machines that answer them.
	isStopped bool
	succeeded int
	// candidates have to be upgraded. total counts them and the others that can be.
	candidates []*machine
	total      int
}

// stepAgents upgrades agents, when everything else is in order: first the agent of one machine, then a share at a time.
// It stops at a failure. Nodes restart nothing but their agent.
func stepAgents(p *pass) verdict {
	report := p.agentsNow()
	p.agents = report
	if len(report.pending) == 0 && len(report.candidates) > 0 && !report.isStopped {
		for _, m := range report.next() {
			pin := p.s.Agents.noted(render.ParseAgentPin(m.marks.AgentPin))
			pin.Agent, pin.Environment = p.s.Agents.Offer, false
			m.marks.AgentPin = pin.String()
			report.pending = append(report.pending, note{name: m.Name})
		}
	}
	p.setAgents(report)
	if len(report.pending) > 0 {
		return stopFor(waitFor(ReasonUpgradingAgents, about(msgAgent, report.pending), WakePlanSecret, WakeMachine,
			WakeControlPlane, WakeCluster))
	}
	return goOn(report.why())
}

func (a *agentReport) why() string {
	switch {
	case len(a.failed) > 0:
		return about("the upgrade of agents failed on", a.failed)
	case a.succeeded > 0:
		return "the agents are those that were requested"
	}
	return "no upgrade of agents is requested"
}

// agentsNow finds out how far all machines are.
func (p *pass) agentsNow() *agentReport {
	report := &agentReport{}
	for _, m := range p.collect(isLive) {
		pin := render.ParseAgentPin(m.marks.AgentPin)
		answers := p.s.Agents.answers(pin)
		switch result, why := p.agentResult(m, pin); {
		case result == agentFailed:
			// The node wrote the reason: it may be no text, and may contain secrets.
			why = p.progress.redact([]byte(strings.ToValidUTF8(why, "")))
			report.failed = append(report.failed, note{m.Name, why})
			report.isStopped = report.isStopped || answers
		case result == agentPending && !p.isUnreachable(m):
			report.pending = append(report.pending, note{name: m.Name})
		case result == agentDone && answers:
			report.succeeded++
		}
		report.total++
		if !answers && p.canUpgradeAgent(m) {
			report.candidates = append(report.candidates, m)
		}
	}
	return report
}

// canUpgradeAgent reports that a machine works, so that its agent can be upgraded.
func (p *pass) canUpgradeAgent(m *machine) bool {
	return p.s.Agents.Offer != nil && !p.s.ControlPlane.Spec.UnmanagedConfig && m.Plan.Malformed == "" &&
		m.state == StateHealthy && p.isPlanKnown(m) && !m.Skip && !m.PoolPaused && m.NodeLostSince.IsZero()
}

// next are the machines whose agents are upgraded now: one, until that succeeded, and then a share.
func (a *agentReport) next() []*machine {
	if a.succeeded > 0 {
		return a.candidates[:min(len(a.candidates), max(1, a.total/agentShare))]
	}
	first := slices.IndexFunc(a.candidates, func(m *machine) bool { return m.roles.OnlyWorker() })
	return a.candidates[max(0, first):][:1]
}

// setAgents sets the condition.
func (p *pass) setAgents(report *agentReport) {
	switch {
	case len(report.failed) > 0:
		message := about("The upgrade of the node agent failed, and no other agent is upgraded. "+
			"Each node runs its former agent. Solve the problem, and request the upgrade again:", report.failed)
		p.set(ConditionAgentsUpgraded, rkev1.ConditionFalse, ReasonAgentUpgradeFailed, message)
	case len(report.pending) > 0:
		p.set(ConditionAgentsUpgraded, rkev1.ConditionUnknown, string(ReasonUpgradingAgents),
			fmt.Sprintf("%s; %d of %d machines are done", about("Upgrading the node agent of", report.pending),
				report.succeeded, report.total))
	case p.has(ConditionAgentsUpgraded):
		p.set(ConditionAgentsUpgraded, rkev1.ConditionTrue, "", "")
	}
}

package planner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// Explanation explains to a user what the planner decides for a snapshot. It holds no plan and no secret.
type Explanation struct {
	// Step is the step that decided.
	Step string `json:"step"`
	// Wait is what it waits for, nil when the cluster is in order.
	Wait *ExplainedWait `json:"wait,omitempty"`
	// Passed are the steps before it, with the reason why each passed.
	Passed []Trace `json:"passed,omitempty"`
	// Effects are what would be done now, in order, one sentence each.
	Effects []string `json:"effects,omitempty"`
	// Warnings are oddities of the configuration.
	Warnings []render.Warning `json:"warnings,omitempty"`
	// Machines by name.
	Machines []ExplainedMachine `json:"machines,omitempty"`
}

// ExplainedWait is a wait in words.
type ExplainedWait struct {
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
	// Wakes are the kinds of objects whose events end the wait.
	Wakes []Wake `json:"wakes"`
	// After is when the planner checks again at the latest, such as 10m0s. It is empty for never.
	After string `json:"after,omitempty"`
	// NeedsPerson is true when only the user can end the wait.
	NeedsPerson bool `json:"needsPerson,omitempty"`
}

// ExplainedMachine is one machine in one line.
type ExplainedMachine struct {
	Name  string `json:"name"`
	Roles string `json:"roles"`
	// Tier is the group that it is configured with, empty when it is in none.
	Tier string `json:"tier,omitempty"`
	// InitNode is true for the machine that starts the cluster.
	InitNode bool `json:"initNode,omitempty"`
	// Plan is the node's progress: none, delivered, failing, applied.
	Plan string `json:"plan"`
	// State says more about that progress. Member is the state of its etcd member, empty without the role etcd.
	State  State       `json:"state"`
	Member MemberState `json:"member,omitempty"`
	// Change is the difference between its plan and the configuration: None, InPlace or Restart.
	Change Class `json:"change"`
	// Message is what the machine waits for, empty when it is in order.
	Message string `json:"message,omitempty"`
}

// Explain returns what Decide decides, and why.
func Explain(s Snapshot) Explanation {
	d, outlook := Decide(s), Assess(s)
	out := Explanation{Step: d.Step, Passed: d.Trace, Warnings: d.Warnings}
	if d.Wait != nil {
		out.Wait = &ExplainedWait{Reason: d.Wait.Reason, Message: d.Wait.Message, Wakes: d.Wait.Wakes,
			NeedsPerson: d.Wait.Failed}
		if d.Wait.After > 0 {
			out.Wait.After = d.Wait.After.String()
		}
	}
	messages := map[string]string{}
	for _, effect := range d.Effects {
		out.Effects = append(out.Effects, Describe(effect))
		if e, ok := effect.(SetMachineCondition); ok {
			messages[e.Machine] = e.Condition.Message
		}
	}
	members, states := map[string]MemberState{}, map[string]State{}
	e := &etcd{newCluster(&s)}
	for _, m := range e.all() {
		states[m.Name] = m.state
	}
	for _, m := range only(e.all(), isEtcd) {
		members[m.Name] = e.stateOf(m)
	}
	for i := range s.Machines {
		m := explainMachine(&s.Machines[i], outlook, messages)
		m.Member = members[m.Name]
		if state, known := states[m.Name]; known {
			m.State = state
		}
		out.Machines = append(out.Machines, m)
	}
	slices.SortFunc(out.Machines, func(a, b ExplainedMachine) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func explainMachine(m *Machine, outlook Outlook, messages map[string]string) ExplainedMachine {
	out := ExplainedMachine{
		Name: m.Name, Roles: rolesOf(m.Labels).String(), InitNode: m.Marks.InitNode,
		Plan: planState(m.Plan), State: stateOf(m.Plan), Change: ClassNone, Message: m.Reconciled.Message,
	}
	if message, told := messages[m.Name]; told {
		out.Message = message
	}
	expected, tier := outlook.Find(m.Name)
	out.Tier, out.Change = tier, expected.Class
	switch {
	case expected.Problem != "":
		out.Message = expected.Problem
	case m.Deleting || !m.InfrastructureReady || out.Message == "":
		out.Message = expected.Held
	}
	if !m.InfrastructureReady && !m.Deleting {
		out.Message = "has no host yet"
	}
	return out
}

// planState is a node's progress with its plan.
func planState(secret *PlanSecret) string {
	switch {
	case secret == nil || !secret.State.PlanExists && secret.Malformed == "":
		return "none"
	case secret.Malformed != "":
		return "unreadable"
	case secret.State.Failed || secret.State.FailureCount > 0:
		return "failing"
	case !secret.State.InSync:
		return "delivered"
	}
	return "applied"
}

// Find returns the outlook of a machine, and the name of its tier.
func (o Outlook) Find(machine string) (expected MachineOutlook, tier string) {
	named := func(m MachineOutlook) bool { return m.Name == machine }
	for _, t := range o.Tiers {
		if i := slices.IndexFunc(t.Machines, named); i >= 0 {
			return t.Machines[i], t.Name
		}
	}
	if i := slices.IndexFunc(o.Others, named); i >= 0 {
		return o.Others[i], ""
	}
	return MachineOutlook{Name: machine, Class: ClassNone}, ""
}

// Describe describes an effect in one sentence, without the content of plans.
func Describe(effect Effect) string {
	switch e := effect.(type) {
	case CreateTokens:
		return "create the join tokens"
	case ResetClusterInitialized:
		return "tell Cluster API that there is no API any more"
	case PauseCluster:
		return "pause the CAPI cluster for " + e.Operation
	case ResumeCluster:
		return "resume the CAPI cluster"
	}
	return describeOfMachine(effect)
}

// describeOfMachine is Describe for effects on one machine.
func describeOfMachine(effect Effect) string {
	switch e := effect.(type) {
	case MarkMachine:
		return "mark machine " + e.Machine + describeMarks(e.Marks)
	case DeliverPlan:
		if e.First {
			return "deliver the first plan to machine " + e.Machine
		}
		return "deliver a changed plan to machine " + e.Machine
	case RequestDrain:
		return "drain the node of machine " + e.Machine
	case RequestUncordon:
		return "uncordon the node of machine " + e.Machine
	case WithdrawInitLabel:
		return "take the label of the init node off secret " + e.Secret
	case PublishJoinURL:
		return "repeat the join URL of machine " + e.Machine + " on its plan secret"
	case SetMachineCondition:
		return fmt.Sprintf("set condition Reconciled of machine %s to %s", e.Machine, e.Condition.Status)
	case ForceRemoveMachine:
		return "let machine " + e.Machine + " go without removing its etcd member"
	}
	return fmt.Sprintf("%T", effect)
}

func describeMarks(marks Marks) string {
	var words []string
	if marks.InitNode {
		words = append(words, "as init node")
	}
	if marks.JoinURL != "" {
		words = append(words, "as joinable at "+marks.JoinURL)
	}
	if marks.Version != "" {
		words = append(words, "as of version "+marks.Version)
	}
	if len(words) == 0 {
		return ""
	}
	return " " + strings.Join(words, " and ")
}

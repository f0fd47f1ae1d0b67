package planner

import (
	"fmt"
	"math"
	"strings"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/pkg/decide/redact"
)

// maxTail is how many bytes of a failed command's output conditions repeat.
const maxTail = 200

// retryBudget is how often an agent tries a plan before it waits for the user. Agents try about every half minute
// (docs/wire/plan.md#one-pass-of-the-agent), and Drover's agent less and less often. Agents keep counting from one plan
// to the next.
const retryBudget = 100

// msgGaveUp is the advice about a plan that a node has given up.
const msgGaveUp = "; the node has given up: change the configuration, or annotate the Machine " +
	rkev1.RetryAnnotation + "=true"

// msgRefused is the advice about a node that refuses to restart.
const msgRefused = "; annotate the Machine " + rkev1.EtcdProofSkipAnnotation + "=true to restart it without that proof"

// hasGivenUp reports that the agent has used up its tries of the machine's plan. Plans of operations count separately.
func (m *machine) hasGivenUp() bool {
	return m.Plan.State.PlanExists && m.isOutOfTries() && render.OperationOf(m.Plan.State.Plan) == ""
}

// isOutOfTries reports that the agent no longer tries its failed plan.
func (m *machine) isOutOfTries() bool {
	state := &m.Plan.State
	return state.FailedChecksum == state.Checksum && state.MaxFailures > 0 && state.FailureCount >= state.MaxFailures
}

// countAfter is the agent's failure count after its next plan has failed that often. The count so far comes from the
// node.
func (m *machine) countAfter(failures int) int {
	return min(max(m.Plan.State.FailureCount, 0), math.MaxInt-retryBudget) + failures
}

// failureOf says why a machine's plan fails: the instruction, its exit code, the end of its output without secrets, and
// the number of attempts as a power of two. All of this comes from the node. Output differs between attempts, in times
// for example. Therefore the output in the message changes only together with the rest of the message.
func (g *progress) failureOf(m *machine) string {
	state := &m.Plan.State
	if state.FailedChecksum != state.Checksum {
		return msgFailed
	}
	failure, ok := nodeplan.FailureOf(state.FailedOutput)
	head, output := msgFailed, failure.Cause(state.FailedOutput)
	if failure.Instruction != "" {
		head += ", instruction " + g.redact([]byte(failure.Instruction))
	}
	if failure.ExitCode != 0 {
		head += fmt.Sprintf(", exit code %d", failure.ExitCode)
	}
	if !ok && m.hasRefused() {
		head += ", instruction " + render.EtcdProofInstruction
		output = state.FailedOutput[render.EtcdProofInstruction]
	}
	if n := bucket(state.FailureCount); n > 1 {
		head += fmt.Sprintf(" (%d attempts or more)", n)
	}
	text := g.redact(output)
	hint := ""
	if m.hasRefused() {
		hint = msgRefused
	}
	if text == "" {
		return head + hint
	}
	if told := withoutNotes(m.Reconciled.Message); strings.HasPrefix(told, head+": ") {
		return told + hint
	}
	return head + ": " + text + hint
}

// withoutNotes removes what leaveOut added to a message, because every pass adds it again.
func withoutNotes(message string) string {
	message = strings.TrimPrefix(message, msgLeftOut)
	if cut := strings.LastIndex(message, msgNodeLost); cut >= 0 {
		message = message[:cut]
	}
	return strings.TrimSuffix(strings.TrimSuffix(message, msgGaveUp), msgRefused)
}

// bucket is the largest power of two that is not larger than n.
func bucket(n int) int {
	b := 1
	for b <= n/2 { // n comes from the node: b*2 may overflow
		b *= 2
	}
	return b
}

// redact returns the end of an output in one line. It removes everything that looks like a secret, the tokens of the
// cluster, and the values of Secrets that its configuration refers to.
func (g *progress) redact(output []byte) string {
	if g.secrets == nil {
		g.secrets = SecretsOf(g.s)
	}
	return redact.Tail(output, maxTail, g.secrets)
}

// IsPlanFailure reports that a condition's message of Drover is about a failing plan.
func IsPlanFailure(message string) bool { return strings.Contains(message, msgFailed) }

// SecretsOf returns the values in a snapshot that must stay secret.
func SecretsOf(s *Snapshot) *redact.Secrets {
	known := &redact.Secrets{}
	known.Add(s.Tokens.Values.Server, s.Tokens.Values.Agent)
	for _, object := range s.Objects {
		if object.Kind == string(render.KindSecret) {
			known.AddData(object.Data)
		}
	}
	return known
}

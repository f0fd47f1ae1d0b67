package planner

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"strings"
	"unicode"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/nodeplan"
	"github.com/drover-io/drover/pkg/planner/render"
)

// maxTail is how much of a failing command's output is repeated in conditions, in bytes.
const maxTail = 200

// retryBudget is how often an agent tries a plan before it waits for a person, about every half minute (spec/04 §1.6). Agents count on from one
// plan to the next.
const retryBudget = 100

// msgGaveUp is what a person can do about a plan that a node has given up.
const msgGaveUp = "; the node has given up: change the configuration, or annotate the Machine " + rkev1.RetryAnnotation + "=true"

// msgRefused is what a person can do about a node that does not get itself restarted.
const msgRefused = "; annotate the Machine " + rkev1.EtcdProofSkipAnnotation + "=true to restart it without that proof"

// gaveUp reports that the agent has tried the plan of a machine as often as it may. Operations count for themselves.
func (m *machine) gaveUp() bool {
	state := &m.Plan.State
	return state.PlanExists && state.FailedChecksum == state.Checksum && state.MaxFailures > 0 && state.FailureCount >= state.MaxFailures &&
		render.OperationOf(state.Plan) == ""
}

// attempts is the count of failures at which the agent of a machine gives up its next plan. The count comes from the node.
func (m *machine) attempts() int {
	return min(max(m.Plan.State.FailureCount, 0), math.MaxInt-retryBudget) + retryBudget
}

// failureOf says why a machine's plan fails: the instruction, its exit code, the end of its output without secrets, and how often it was
// tried, in powers of two. All of this comes from the node. Output differs from one attempt to the next, in times for example: it is told anew only
// when the rest of the message is.
func (p *pass) failureOf(m *machine) string {
	state := &m.Plan.State
	if state.FailedChecksum != state.Checksum {
		return msgFailed
	}
	head, output := msgFailed, state.FailedOutput[nodeplan.OutputAgentError]
	if failure, ok := nodeplan.FailureOf(state.FailedOutput); ok {
		if failure.Instruction != "" {
			head += ", instruction " + p.redact([]byte(failure.Instruction))
		}
		if failure.ExitCode != 0 {
			head += fmt.Sprintf(", exit code %d", failure.ExitCode)
			output = state.FailedOutput[failure.Instruction]
		}
	} else if m.refused() {
		head += ", instruction " + render.EtcdProofInstruction
		output = state.FailedOutput[render.EtcdProofInstruction]
	}
	if n := bucket(state.FailureCount); n > 1 {
		head += fmt.Sprintf(" (%d attempts or more)", n)
	}
	text := p.redact(output)
	hint := ""
	if m.refused() {
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

// withoutNotes takes off a message what leaveOut put around it, which comes anew with every pass.
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
	for b <= n/2 { // n comes from the node: b*2 may be more than there are numbers
		b *= 2
	}
	return b
}

// secretive finds values after words that announce a secret, or do before a colon or an equals sign, credentials in URLs and of curl, and key
// material. A value may be quoted, and that of a header begins with the name of a scheme.
var secretive = regexp.MustCompile(`(?i)((?:token|passw(?:or)?d|passphrase|pwd|secret|credential|authorization|bearer|(?:api|access|private)[-_]?key)[\w-]*["']?` +
	`(?:\s*[:=]\s*|\s+)(?:["']?(?:basic|bearer|digest|negotiate)\s+)?)(?:"[^"]*"|'[^']*'|\S+)` +
	`|((?:(?:\b|_)(?:auth|pass|psk)|key[-_]?data)["']?\s*[:=]\s*)(?:"[^"]*"|'[^']*'|\S+)` +
	`|(\s-(?:u|-user)[ =])\S+|://[^/\s@]+@|[A-Za-z0-9+/_=-]{40,}|K10[0-9a-f]{8,}\S*`)

// redact makes one line of the end of an output, without what looks like a secret and without the tokens of the cluster.
func (p *pass) redact(output []byte) string {
	if len(output) > 4*maxTail {
		output = output[len(output)-4*maxTail:]
		if cut := bytes.IndexAny(output, " \n"); cut >= 0 {
			output = output[cut:] // half a word could be the end of a secret that is not recognised any more
		}
	}
	text := string(output)
	for _, token := range []string{p.s.Tokens.Values.Server, p.s.Tokens.Values.Agent} {
		if token != "" {
			text = strings.ReplaceAll(text, token, "***")
		}
	}
	return clip(masked(text))
}

// Redact makes one short line of the end of a text that others made, such as the output of a node driver, without what looks like a secret.
func Redact(text string) string { return clip(masked(text)) }

// IsPlanFailure reports that the message of a condition of ours tells of a plan that fails.
func IsPlanFailure(message string) bool { return strings.Contains(message, msgFailed) }

// masked is the end of a text with what looks like a secret made unreadable. Only the last part is told: what announces a secret before that is
// still seen, however little is left of what follows it.
func masked(text string) string {
	at := max(0, len(text)-2*maxTail)
	if cut := strings.IndexAny(text[at:], " \n"); at > 0 && cut >= 0 {
		at += cut
	}
	var out strings.Builder
	for _, found := range secretive.FindAllStringSubmatchIndex(text, -1) {
		if found[1] <= at {
			continue
		}
		out.WriteString(text[at:max(at, found[0])])
		for group := 2; group+1 < len(found); group += 2 {
			if from, to := found[group], found[group+1]; from >= at {
				out.WriteString(text[from:to])
			}
		}
		out.WriteString("***")
		at = found[1]
	}
	out.WriteString(text[at:])
	return out.String()
}

// clip makes a short line of a text: its end, in whole words.
func clip(text string) string {
	words := strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) })
	kept, size := len(words), 0
	for kept > 0 && size+len(words[kept-1])+1 <= maxTail {
		kept--
		size += len(words[kept]) + 1
	}
	line := strings.Join(words[kept:], " ")
	if kept > 0 && line != "" {
		line = "… " + line
	}
	return line
}

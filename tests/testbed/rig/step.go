package rig

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// mostLines is the number of lines that are printed from the end of an output.
const mostLines = 20

// machineFacts are the inputs that determine a machine's step.
type machineFacts struct {
	// Machine is the Cluster API object.
	Machine unstructured.Unstructured
	// Plan is the machine's plan Secret, or nil.
	Plan *corev1.Secret
	// Console is the machine's console output. It is empty if the cloud does not know the machine.
	Console string
}

// explainMachine describes the step of a machine, its conditions, and the last output of that step.
func explainMachine(m machineFacts) string {
	what := "machine " + m.Machine.GetName()
	var out strings.Builder
	step, title, output := m.step()
	fmt.Fprintf(&out, "%s: %s\n", what, step)
	explainConditions(&out, what, &m.Machine)
	if lines := lastLines(output); lines != "" {
		fmt.Fprintf(&out, "%s, %s ends with:\n%s\n", what, title, lines)
	}
	return out.String()
}

// step returns the step and its output.
func (m machineFacts) step() (step, title, output string) {
	phase, _, _ := unstructured.NestedString(m.Machine.Object, "status", "phase")
	console := "its console"
	switch {
	case m.Machine.GetDeletionTimestamp() != nil:
		return "is being deleted", console, m.Console
	case m.Plan == nil || len(m.Plan.Data[nodeplan.KeyPlan]) == 0:
		return "has no plan yet, its phase is " + strings.ToLower(cmp.Or(phase, "pending")), console, m.Console
	}
	state, err := nodeplan.Parse(m.Plan.Namespace+"/"+m.Plan.Name, m.Plan.Data)
	malformed := ""
	if err != nil {
		malformed = " (" + strings.ReplaceAll(err.Error(), "\n", "; ") + ")"
	}
	switch {
	case !reported(state):
		return "its agent has not reported on its plan yet" + malformed, console, m.Console
	case state.FailureCount > 0 && state.FailedChecksum == state.Checksum || state.Failed:
		name, text := lastOutput(state, state.FailedOutput)
		return fmt.Sprintf("its plan failed %d times%s", state.FailureCount, malformed), name, text
	case !state.InSync:
		return "its agent applies its plan" + malformed, console, m.Console
	case !state.Healthy:
		name, text := lastOutput(state, state.Output)
		return "its plan is applied, but these probes do not pass: " + strings.Join(state.UnhealthyProbes(), ", ") +
			malformed, name, text
	default:
		return "its plan is applied and no probe fails" + malformed, "", ""
	}
}

// reported reports whether an agent has ever written to the plan Secret.
func reported(state nodeplan.State) bool {
	return state.AppliedChecksum != "" || state.FailedChecksum != "" || state.FailureCount > 0 ||
		len(state.ProbeStatuses) > 0 ||
		state.Phase != "" && state.Phase != nodeplan.PhasePending
}

// lastOutput returns the output of the plan's last instruction with an output, with the plan's secrets masked. It
// ignores outputs of instructions that are not in the plan. The agent's own error has priority.
func lastOutput(state nodeplan.State, outputs map[string][]byte) (title, text string) {
	if output := outputs[nodeplan.OutputAgentError]; len(output) > 0 {
		title, text = "the report of its agent", string(output)
	}
	for _, one := range state.Plan.Instructions {
		if output := outputs[one.Name]; len(output) > 0 {
			title, text = "the output of instruction "+one.Name,
				strings.TrimSpace(string(output)+"\n"+string(outputs[nodeplan.OutputAgentError]))
		}
	}
	return title, redact(text, state.Plan)
}

// lastLines returns the end of a text in a form that is safe for a terminal.
func lastLines(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return -1
	}, text)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	lines = lines[max(0, len(lines)-mostLines):]
	for i, line := range lines {
		const longest = 400
		if runes := []rune(strings.TrimRightFunc(line, unicode.IsSpace)); len(runes) > longest {
			lines[i] = string(runes[:longest]) + "…"
		} else {
			lines[i] = string(runes)
		}
	}
	return strings.Join(lines, "\n")
}

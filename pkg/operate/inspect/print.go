package inspect

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/operate/table"
)

// WriteJSON writes a value as all commands do.
func WriteJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// Print writes the explanation for a terminal. table.Print aligns it.
func (e Explanation) Print(w io.Writer) {
	table.Row(w, "Cluster:", e.Cluster)
	switch {
	case e.ManagedBy != "":
		table.Row(w, "Managed by:", "instance "+e.ManagedBy)
	case e.Decision != nil:
		table.Row(w, "Managed by:",
			"no instance of Drover: a program without a mark, or none; a Drover would decide this, but changes "+
				"nothing until drover adopt")
	default:
		table.Row(w, "Managed by:", "no instance yet; check that a Drover server runs")
	}
	if e.SettingsUnknown != "" {
		table.Row(w, "Settings:", "not the server's; "+e.SettingsUnknown)
	}
	if e.Decision == nil {
		table.Row(w, "Control plane:", "does not exist yet")
		printConditions(w, e.Conditions)
		return
	}
	printDecision(w, e.Decision)
}

func printConditions(w io.Writer, conditions []Condition) {
	table.Heading(w, "Conditions of the Cluster:")
	if len(conditions) == 0 {
		table.Line(w, "none: no controller has reconciled it yet")
		return
	}
	table.Line(w, "TYPE", "STATUS", "REASON", "MESSAGE")
	for _, c := range conditions {
		table.Line(w, c.Type, c.Status, c.Reason, c.Message)
	}
}

func printDecision(w io.Writer, d *planner.Explanation) {
	table.Row(w, "Step:", d.Step)
	printWait(w, d.Wait)
	if len(d.Effects) > 0 {
		table.Heading(w, "Done now:")
		for _, effect := range d.Effects {
			_, _ = fmt.Fprintln(w, "  "+effect)
		}
	}
	if len(d.Passed) > 0 {
		table.Heading(w, "Steps before:")
		for _, passed := range d.Passed {
			table.Line(w, passed.Step, passed.Why)
		}
	}
	if len(d.Machines) > 0 {
		table.Heading(w, "Machines:")
		table.Line(w, "NAME", "ROLES", "TIER", "STATE", "ETCD", "CHANGE", "MESSAGE")
		for _, m := range d.Machines {
			roles := m.Roles
			if m.InitNode {
				roles += " (init node)"
			}
			table.Line(w, m.Name, roles, m.Tier, string(m.State), string(m.Member), string(m.Change), m.Message)
		}
	}
	if len(d.Warnings) > 0 {
		table.Heading(w, "Warnings:")
		for _, warning := range d.Warnings {
			table.Line(w, warning.Field, warning.Message)
		}
	}
}

func printWait(w io.Writer, wait *planner.ExplainedWait) {
	if wait == nil {
		table.Row(w, "Waits for:", "nothing; the cluster is in order")
		return
	}
	wakes := make([]string, 0, len(wait.Wakes))
	for _, wake := range wait.Wakes {
		wakes = append(wakes, string(wake))
	}
	table.Row(w, "Waits for:", wait.Message)
	table.Row(w, "Reason:", string(wait.Reason))
	table.Row(w, "Woken by:", strings.Join(wakes, ", "))
	if wait.After != "" {
		table.Row(w, "Retries:", "after "+wait.After+" at the latest")
	}
	if wait.NeedsPerson {
		table.Row(w, "Ends:", "when a user corrects it")
	}
}

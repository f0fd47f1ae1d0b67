package cmd

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/operate/inspect"
)

func newExplainCommand(environ []string, o *inspectOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain CLUSTER",
		Short: "Explain what the planner is doing and what it waits for",
		Long: `Explain what the planner would decide now about a cluster. The command shows:

  * the step that decides, and what it waits for
  * why the steps before it had nothing to do
  * what the planner would do at once
  * a line for each machine

While there is no control plane, the command shows only the conditions of the Cluster.

Exit codes: 0 the explanation is printed, whatever the cluster waits for; 1 an error. The exit code
of drover diagnose shows whether the cluster works.

The command reads with your permissions and writes nothing. It shows no plans and no secrets.

The command uses the settings that the server has published in namespace drover-system. Flags such
as --system-default-registry, or DROVER_… in the environment, override them.

-o json and -o yaml print the type Explanation of package pkg/operate/inspect.`,
		Example: `  # what is cluster demo waiting for?
  drover explain demo

  # print the explanation for a script, for a cluster in another namespace
  drover explain demo -n team-a -o json | jq .decision.wait`,
		Args:              takes("CLUSTER"),
		ValidArgsFunction: completing(environ, o.clusterNames),
		PreRunE:           func(cmd *cobra.Command, _ []string) error { return o.complete(cmd, environ) },
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := o.reader(cmd.Context(), orDefault(o.namespace))
			if err != nil {
				return err
			}
			defer r.Close()
			e, err := r.Explain(args[0])
			if err != nil {
				return err
			}
			return o.print(cmd.OutOrStdout(), e, func(w io.Writer) { printExplanation(w, e) })
		},
	}
	o.addFlags(cmd, environ)
	o.addOutput(cmd)
	return cmd
}

func printExplanation(w io.Writer, e inspect.Explanation) {
	row(w, "Cluster:", e.Cluster)
	switch {
	case e.ManagedBy != "":
		row(w, "Managed by:", "instance "+e.ManagedBy)
	case e.Decision != nil:
		row(w, "Managed by:",
			"no instance of Drover: a program without a mark, or none; a Drover would decide this, but changes "+
				"nothing until drover adopt")
	default:
		row(w, "Managed by:", "no instance yet; check that a Drover server runs")
	}
	if e.SettingsUnknown != "" {
		row(w, "Settings:", "not the server's; "+e.SettingsUnknown)
	}
	if e.Decision == nil {
		row(w, "Control plane:", "does not exist yet")
		printConditions(w, e.Conditions)
		return
	}
	printDecision(w, e.Decision)
}

func printConditions(w io.Writer, conditions []inspect.Condition) {
	heading(w, "Conditions of the Cluster:")
	if len(conditions) == 0 {
		table(w, "none: no controller has reconciled it yet")
		return
	}
	table(w, "TYPE", "STATUS", "REASON", "MESSAGE")
	for _, c := range conditions {
		table(w, c.Type, c.Status, c.Reason, c.Message)
	}
}

func printDecision(w io.Writer, d *planner.Explanation) {
	row(w, "Step:", d.Step)
	printWait(w, d.Wait)
	if len(d.Effects) > 0 {
		heading(w, "Done now:")
		for _, effect := range d.Effects {
			_, _ = fmt.Fprintln(w, "  "+effect)
		}
	}
	if len(d.Passed) > 0 {
		heading(w, "Steps before:")
		for _, passed := range d.Passed {
			table(w, passed.Step, passed.Why)
		}
	}
	if len(d.Machines) > 0 {
		heading(w, "Machines:")
		table(w, "NAME", "ROLES", "TIER", "STATE", "ETCD", "CHANGE", "MESSAGE")
		for _, m := range d.Machines {
			roles := m.Roles
			if m.InitNode {
				roles += " (init node)"
			}
			table(w, m.Name, roles, m.Tier, string(m.State), string(m.Member), string(m.Change), m.Message)
		}
	}
	if len(d.Warnings) > 0 {
		heading(w, "Warnings:")
		for _, warning := range d.Warnings {
			table(w, warning.Field, warning.Message)
		}
	}
}

func printWait(w io.Writer, wait *planner.ExplainedWait) {
	if wait == nil {
		row(w, "Waits for:", "nothing; the cluster is in order")
		return
	}
	wakes := make([]string, 0, len(wait.Wakes))
	for _, wake := range wait.Wakes {
		wakes = append(wakes, string(wake))
	}
	row(w, "Waits for:", wait.Message)
	row(w, "Reason:", string(wait.Reason))
	row(w, "Woken by:", strings.Join(wakes, ", "))
	if wait.After != "" {
		row(w, "Retries:", "after "+wait.After+" at the latest")
	}
	if wait.NeedsPerson {
		row(w, "Ends:", "when a user corrects it")
	}
}

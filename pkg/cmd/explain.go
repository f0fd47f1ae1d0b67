package cmd

import (
	"github.com/spf13/cobra"
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
			r, err := o.reader(cmd.Context(), o.inNamespace())
			if err != nil {
				return err
			}
			defer r.Close()
			e, err := r.Explain(args[0])
			if err != nil {
				return err
			}
			return o.print(cmd.OutOrStdout(), e, e.Print)
		},
	}
	o.addFlags(cmd, environ)
	o.addOutput(cmd)
	return cmd
}

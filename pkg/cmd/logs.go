package cmd

import (
	"github.com/spf13/cobra"

	"github.com/drover-io/drover/pkg/operate/inspect"
)

func newLogsCommand(environ []string, o *inspectOptions) *cobra.Command {
	var logs inspect.LogOptions
	cmd := &cobra.Command{
		Use:   "logs CLUSTER|MACHINE",
		Short: "Print the log of a cluster or of a machine",
		Long: `Print the provisioning log of a cluster, or the output of the Job that creates or removes a machine.

A cluster's log has a line for each message that the cluster has shown, as drover explain shows the
present one. Drover keeps the last 10000 bytes.

A machine's log comes from its pod. When the pod is gone, the command prints the last 32 KiB of the
output, which Drover keeps as long as the machine exists. The command masks what looks like a secret.

A name means the Cluster if there is one, and otherwise the Machine. cluster/NAME and machine/NAME
name one of them.

The command reads with your permissions: a cluster's log is ConfigMap provisioning-log in the
namespace of its management cluster. The kept output of a machine is a Secret in its own namespace.

Exit codes: 0 the log is printed; 1 an error, or there is no log yet.`,
		Example: `  # what has happened to cluster demo?
  drover logs demo

  # follow the creation of a machine, from its last ten lines
  drover logs machine/demo-workers-x7k2p -f --tail 10`,
		Args:              takes("CLUSTER|MACHINE"),
		ValidArgsFunction: completing(environ, o.logNames),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			return fillFromEnvironment(cmd.Flags(), environ)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := o.plainReader(cmd.Context(), o.inNamespace())
			if err != nil {
				return err
			}
			defer r.Close()
			return r.Logs(cmd.Context(), args[0], logs, cmd.OutOrStdout())
		},
	}
	addManagement(cmd, environ, &o.kubeconfig, &o.context, fromKubeconfigOrCluster)
	o.addNamespace(cmd, environ)
	cmd.Flags().BoolVarP(&logs.Follow, "follow", "f", false, "continue with new lines until the log ends")
	cmd.Flags().Int64Var(&logs.Tail, "tail", -1, "`number` of last lines to print first; -1 prints all lines")
	return cmd
}

// logNames completes the name of a cluster or a machine.
func (o *inspectOptions) logNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return o.suggest(cmd, (*inspect.Reader).LogNames)
}

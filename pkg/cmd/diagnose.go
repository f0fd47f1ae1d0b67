package cmd

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/drover-io/drover/pkg/operate/diagnose"
)

// exitBroken is the exit code of drover diagnose if a link is broken or waits.
const exitBroken = 2

func newDiagnoseCommand(environ []string, o *inspectOptions) *cobra.Command {
	all := false
	o.formats = []string{outputTree, outputJSON, outputYAML}
	cmd := &cobra.Command{
		Use:   "diagnose CLUSTER",
		Short: "Find out why a cluster does not work",
		Long: `Find the first broken link of each chain that makes a cluster work. For each such link, the command
shows:

  * what is broken, and since when
  * why
  * what the link waits for, and whose events end the wait
  * what to do

The chains begin with what all clusters need: definitions, webhooks, clocks and a leading server.
They continue with the Cluster: owner, credential, node driver, spec, Cluster API's core, pause,
infrastructure and configuration. Then they branch:

  * each machine of each pool: bootstrap data, host, Job and pod, plan, agent and node
  * the rollout
  * the connection to the cluster's API

For a cluster that is being deleted, the command shows what blocks the deletion, and whose
finalizers remain.

A Waiting link is in progress and continues by itself. A Broken link needs a person, or takes
longer than it should.

Exit codes: 0 every link works; 1 an error; 2 a link is broken or waits.

The command reads with your permissions, writes nothing and shows no secrets. It leaves out what
you may not read, and notes it.

The command uses the settings that the server has published in namespace drover-system. Flags such
as --system-default-registry, or DROVER_… in the environment, override them.

-o json and -o yaml print the type Report of package pkg/operate/diagnose.`,
		Example: `  # what is wrong with cluster demo?
  drover diagnose demo

  # show every link, for a cluster in another namespace
  drover diagnose demo -n team-a --all

  # print the names of the broken links, for a script
  drover diagnose demo -o json | jq -r '.findings[] | .name + " " + .object'`,
		Args:              takes("CLUSTER"),
		ValidArgsFunction: completing(environ, o.clusterNames),
		PreRunE:           func(cmd *cobra.Command, _ []string) error { return o.complete(cmd, environ) },
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := o.reader(cmd.Context(), o.inNamespace())
			if err != nil {
				return err
			}
			defer r.Close()
			report, err := r.Diagnose(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if err := o.print(cmd.OutOrStdout(), report, func(w io.Writer) { report.Print(w, all) }); err != nil {
				return err
			}
			if report.Result == diagnose.OK {
				return nil
			}
			cmd.SilenceErrors = true
			return exitError(exitBroken)
		},
	}
	o.addFlags(cmd, environ)
	o.addOutput(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "show every link, not only the broken ones")
	return cmd
}

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
		Short: "Find what keeps a cluster from working",
		Long: `Walk the chains that make a cluster work, each to its first broken link, and say of that: what is broken and since when, why, what it waits
for and whose events end the wait, and what to do.

The chains begin with what all clusters need (definitions, webhooks, clocks, a server that leads), go on with the Cluster (whose it is,
credential, node driver, its spec, Cluster API's core, pause, infrastructure, configuration), and branch then: for each machine of each
pool its bootstrap data, host, Job and pod, plan, agent and node; the roll-out; and the way to the cluster's API. Of a cluster that is
being deleted it says what holds that up, and whose finalizers.

A link that is Waiting is being made and goes on by itself; one that is Broken needs somebody, or takes longer than it should.

Exit codes: 0 every link works, 1 an error, 2 a link is broken or waits.

It reads with your rights, writes nothing, and shows no secrets. What you may not read is noted and left out. The settings of the server are
those it has published in namespace drover-system; --system-default-registry and others, or DROVER_… in the environment, come before them.

-o json and -o yaml print the type Report of package pkg/operate/diagnose.`,
		Example: `  # what is wrong with cluster demo?
  drover diagnose demo

  # every link, in another namespace
  drover diagnose demo -n team-a --all

  # the names of the broken links, for a program
  drover diagnose demo -o json | jq -r '.findings[] | .name + " " + .object'`,
		Args:              takes("CLUSTER"),
		ValidArgsFunction: completing(environ, o.clusterNames),
		PreRunE:           func(cmd *cobra.Command, _ []string) error { return o.complete(cmd, environ) },
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := o.reader(cmd.Context(), orDefault(o.namespace))
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

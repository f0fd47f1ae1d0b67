package cmd

import (
	"errors"

	"github.com/spf13/cobra"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/operate/edit"
	"github.com/drover-io/drover/pkg/operate/inspect"
	"github.com/drover-io/drover/pkg/releases"
)

func newUpgradeClusterCommand(environ []string, o *inspectOptions) *cobra.Command {
	return newUpgradeCluster(newEditOptions(environ, o))
}

func newUpgradeCluster(e *editOptions) *cobra.Command {
	version := ""
	cmd := &cobra.Command{
		Use:   "cluster CLUSTER --version VERSION",
		Short: "Change the Kubernetes version of a cluster",
		Long: `Change the Kubernetes version of a cluster. The server upgrades the machines by the rules of every
rollout. It goes tier by tier, with the concurrency and the drain of the upgrade strategy.

The command refuses a version of another distribution, and a version whose minor the release data
do not have. The error lists the minors. --release-data names newer release data.

` + helpOfEdits,
		Example: `  # which machines would restart, and in which order?
  drover upgrade cluster demo --version v1.36.3+rke2r1 --dry-run

  # upgrade, and wait until all machines run the version
  drover upgrade cluster demo --version v1.36.3+rke2r1 --wait`,
		Args:              takes("CLUSTER"),
		ValidArgsFunction: completing(e.environ, e.clusterNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if version == "" {
				return seeHelp(cmd, errors.New("VERSION is missing; use --version VERSION"))
			}
			return e.run(cmd, args[0], func(c *provv1.Cluster, facts edit.Releases) (edit.Change, error) {
				return edit.Upgrade(c, version, facts)
			})
		},
	}
	e.addFollowing(cmd, "show what would happen, and write nothing", "return after all machines run the version")
	cmd.Flags().StringVar(&version, "version", "", "Kubernetes `version`, for example v1.36.3+rke2r1")
	_ = cmd.RegisterFlagCompletionFunc("version", completing(e.environ, e.nextVersions))
	return cmd
}

// nextVersions completes the beginning of a version that the cluster can have next, from the release data of the
// program.
func (o *editOptions) nextVersions(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	facts, err := releases.Embedded()
	if err != nil || len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	words, directive := o.suggest(cmd, func(r *inspect.Reader) ([]string, error) {
		cluster, err := r.Cluster(args[0])
		if err != nil {
			return nil, err
		}
		return edit.Offered(cluster.Spec.KubernetesVersion, facts), nil
	})
	return words, directive | cobra.ShellCompDirectiveNoSpace
}

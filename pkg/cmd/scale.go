package cmd

import (
	"github.com/spf13/cobra"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/operate/edit"
)

func newScaleCommand(environ []string, o *inspectOptions) *cobra.Command {
	return newScale(newEditOptions(environ, o))
}

func newScale(e *editOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "scale CLUSTER POOL=N [POOL=N...]",
		Short: "Change the number of machines of the pools of a cluster",
		Long: `Change the number of machines of the pools of a cluster. All pools change with one write.

The command refuses a pool that an autoscaler sizes, and a cluster of existing hosts, which has no
pools.

` + helpOfEdits,
		Example: `  # what would happen?
  drover scale demo workers=5 --dry-run

  # scale two pools, and wait until all machines run
  drover scale demo servers=3 workers=5 --wait`,
		Args: func(cmd *cobra.Command, args []string) error {
			return takes("CLUSTER", "POOL=N")(cmd, args[:min(len(args), 2)])
		},
		ValidArgsFunction: completing(e.environ, e.clusterPools),
		RunE: func(cmd *cobra.Command, args []string) error {
			sizes, err := edit.ParseSizes(args[1:])
			if err != nil {
				return err
			}
			return e.run(cmd, args[0], func(c *provv1.Cluster, _ edit.Releases) (edit.Change, error) {
				return edit.Scale(c, sizes)
			})
		},
	}
	e.addFollowing(cmd, "show what would happen, and write nothing", "return after all machines run")
	return cmd
}

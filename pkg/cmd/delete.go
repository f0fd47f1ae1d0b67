package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/operate/edit"
	"github.com/drover-io/drover/pkg/operate/status"
)

func newDeleteCommand(environ []string, o *inspectOptions) *cobra.Command {
	return newDelete(newEditOptions(environ, o))
}

func newDelete(e *editOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "delete CLUSTER",
		Short: "Delete a cluster with its machines",
		Long: `Delete a cluster with its machines. A deletion cannot be undone.

The command first shows which machines go, what else goes, what stays, and what will hold the
deletion. It asks for the name of the cluster. Without a terminal, it needs --yes. It then deletes
exactly this cluster, once. It refuses if another user or program has changed the cluster since.
It refuses to delete a protected cluster.

  Removed   the driver removes the host
  Cleaned   the agent removes the distribution and its data from an existing host
  Stays     an existing host keeps everything, and its processes continue to run

With --dry-run, the command only shows this. With --wait, it follows the deletion, as drover status
--watch does, until the cluster is gone. If you stop the command, the deletion continues.

The command uses your permissions. You must be allowed to get and delete the Cluster. It does not
show machines and snapshots that you may not list.

Exit codes: 0 the deletion has begun, and with --wait the cluster is gone; 1 an error, or the
cluster is not gone within --timeout; with --dry-run: 0 the cluster can be deleted; 1 it cannot.

-o json and -o yaml print the type Removal of package pkg/operate/edit.`,
		Example: `  # what would go, and what would stay?
  drover delete demo --dry-run

  # delete the cluster, and wait until it is gone
  drover delete demo --wait`,
		Args:              takes("CLUSTER"),
		ValidArgsFunction: completing(e.environ, e.clusterNames),
		RunE:              func(cmd *cobra.Command, args []string) error { return e.delete(cmd, args[0]) },
	}
	e.addFollowing(cmd, "show what would go, and delete nothing", "return after the cluster is gone")
	return cmd
}

// delete takes a deletion to its end.
func (o *editOptions) delete(cmd *cobra.Command, name string) error {
	ctx := cmd.Context()
	b, err := meanwhile(ctx, func() (edit.Belongings, error) { return o.belongings(ctx, name) })
	if err != nil {
		return err
	}
	removal := edit.RemovalOf(b)
	if err := o.print(cmd.OutOrStdout(), removal, func(w io.Writer) { printRemoval(w, removal) }); err != nil {
		return err
	}
	switch {
	case removal.Refused != "" && !removal.Deleting:
		return errors.New(removal.Refused)
	case o.dryRun:
		return nil
	case removal.Deleting:
		cmd.PrintErrf("Cluster %s is already being deleted\n", removal.Cluster)
	default:
		if err := o.remove(cmd, b.Cluster); err != nil {
			return err
		}
	}
	if o.wait {
		return o.await(cmd, name, status.Goal{Gone: true})
	}
	cmd.PrintErrf("drover status %s -n %s --watch follows it\n", name, b.Cluster.Namespace)
	return nil
}

// remove asks, and begins the deletion.
func (o *editOptions) remove(cmd *cobra.Command, cluster *provv1.Cluster) error {
	whole := cluster.Namespace + "/" + cluster.Name
	err := o.agree(cmd, "Type the name of the cluster to delete it: ", cluster.Name)
	if err != nil {
		return err
	}
	w, err := o.applier()
	if err == nil {
		err = w.Delete(cmd.Context(), cluster)
	}
	if err != nil {
		return err
	}
	cmd.PrintErrf("The deletion of cluster %s has begun\n", whole)
	return nil
}

func (o *editOptions) belongings(ctx context.Context, name string) (edit.Belongings, error) {
	r, err := o.plainReader(ctx, o.inNamespace())
	if err != nil {
		return edit.Belongings{}, err
	}
	defer r.Close()
	return r.Belongings(ctx, name)
}

func printRemoval(w io.Writer, r edit.Removal) {
	row(w, "Cluster:", r.Cluster)
	if len(r.Machines) > 0 {
		heading(w, "Machines:")
		line(w, "NAME", "POOL", "ROLES", "HOST")
		for _, m := range r.Machines {
			line(w, m.Name, m.Pool, m.Roles, m.Host)
		}
	}
	for _, part := range []struct {
		title string
		lines []string
	}{{"Also goes:", r.Goes}, {"Stays:", r.Stays}, {"Holds the deletion:", r.Blocks}, {"Notes:", r.Notes}} {
		if len(part.lines) == 0 {
			continue
		}
		heading(w, part.title)
		for _, text := range part.lines {
			_, _ = fmt.Fprintln(w, "  "+printable(text))
		}
	}
}

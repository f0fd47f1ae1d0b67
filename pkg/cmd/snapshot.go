package cmd

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/operate/inspect"
)

func newSnapshotCommand(environ []string, o *inspectOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Take, list and restore etcd snapshots of clusters",
		Long: `Take, list and restore etcd snapshots of clusters.

A snapshot holds the content of one cluster's API. To copy what Drover itself manages in the
management cluster, use drover backup.`,
	}
	cmd.AddCommand(newSnapshotTakeCommand(environ, o), newSnapshotListCommand(environ, o),
		newSnapshotRestoreCommand(environ, o))
	return cmd
}

func newSnapshotTakeCommand(environ []string, o *inspectOptions) *cobra.Command {
	t := &operationOptions{inspectOptions: o}
	return t.command(environ, &cobra.Command{
		Use:   "take CLUSTER",
		Short: "Take an etcd snapshot of a cluster now",
		Long: `Take an etcd snapshot of a cluster now, on each machine that has etcd. If spec.rkeConfig.etcd.s3 is
set, the snapshot also goes to S3. Nothing restarts. While the cluster is not up, the request waits.

` + helpOfAsking,
		Example: `  # take a snapshot, and wait until it exists
  drover snapshot take demo --wait

  # take a snapshot before an upgrade, and wait at most ten minutes
  drover snapshot take demo --wait --timeout 10m && kubectl apply -f cluster.yaml`,
	}, withoutParameters(planner.SnapshotOperation))
}

func newSnapshotListCommand(environ []string, o *inspectOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list [CLUSTER]",
		Short: "List the snapshots of a cluster, or of all clusters in a namespace",
		Long: `List the snapshots of a cluster, or of all clusters in a namespace, the newest first. A restore
takes the NAME. VERSION is the Kubernetes version of the cluster at that time, from the snapshot's
metadata.

The command lists the ETCDSnapshots of the namespace. Drover keeps one for each snapshot that a
cluster lists, and checks once a minute. The command reads with your permissions and writes nothing.

Exit codes: 0 the list is printed, even if there are no snapshots; 1 an error.

-o json and -o yaml print the type Snapshots of package pkg/operate/inspect.`,
		Example: `  # which snapshots of demo exist?
  drover snapshot list demo

  # print the newest snapshot of all clusters of a team, for a script
  drover snapshot list -n team-a -o json | jq -r '[.snapshots[] | select(.status != "failed")][0].name // empty'`,
		Args:              mayTake("CLUSTER"),
		ValidArgsFunction: completing(environ, o.clusterNames),
		PreRunE:           func(cmd *cobra.Command, _ []string) error { return o.complete(cmd, environ) },
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := o.reader(cmd.Context(), o.inNamespace())
			if err != nil {
				return err
			}
			defer r.Close()
			found, err := r.Snapshots(cmd.Context(), strings.Join(args, ""))
			if err != nil {
				return err
			}
			if len(found.Snapshots) == 0 {
				cmd.PrintErrln(noSnapshots(found))
			}
			return o.print(cmd.OutOrStdout(), found, func(w io.Writer) {
				printSnapshots(w, found.Snapshots, time.Now())
			})
		},
	}
	addManagement(cmd, environ, &o.kubeconfig, &o.context, fromKubeconfigOrCluster)
	o.addNamespace(cmd, environ)
	o.addOutput(cmd)
	return cmd
}

// noSnapshots is the message for an empty list.
func noSnapshots(list inspect.Snapshots) string {
	if list.Cluster == "" {
		return "no snapshots are known in namespace " + list.Namespace
	}
	return fmt.Sprintf("no snapshots of cluster %s are known in namespace %s", list.Cluster, list.Namespace)
}

func printSnapshots(w io.Writer, snapshots []inspect.Snapshot, now time.Time) {
	if len(snapshots) == 0 {
		return
	}
	row(w, "NAME", "CLUSTER", "STORAGE", "NODE", "STATUS", "SIZE", "AGE", "VERSION")
	for _, s := range snapshots {
		row(w, s.Name, s.Cluster, s.Storage, s.Node, s.Status, sizeText(s.Size), s.Age(now), s.KubernetesVersion)
	}
}

// sizeText is a size in MiB, empty if unknown.
func sizeText(bytes int64) string {
	if bytes <= 0 {
		return ""
	}
	return fmt.Sprintf("%.1f MiB", max(float64(bytes)/(1<<20), 0.1))
}

// snapshotNames completes a snapshot of the cluster argument, newest first. It omits failed snapshots.
func (o *inspectOptions) snapshotNames(cmd *cobra.Command, args []string, word string) ([]string,
	cobra.ShellCompDirective) {
	if len(args) != 1 {
		return o.clusterNames(cmd, args, word)
	}
	names, directive := o.suggest(cmd, func(r *inspect.Reader) (names []string, err error) {
		found, err := r.Snapshots(cmd.Context(), args[0])
		for _, s := range found.Snapshots {
			if !s.Failed() {
				names = append(names, s.Name)
			}
		}
		return names, err
	})
	return names, directive | cobra.ShellCompDirectiveKeepOrder
}

// snapshotVersion completes the Kubernetes version of the snapshot argument.
func (o *inspectOptions) snapshotVersion(cmd *cobra.Command, args []string, _ string) ([]string,
	cobra.ShellCompDirective) {
	const named = 2
	if len(args) < named {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return o.suggest(cmd, func(r *inspect.Reader) ([]string, error) {
		found, err := r.Snapshot(args[1])
		if found == nil || found.KubernetesVersion == "" {
			return nil, err
		}
		return []string{printable(found.KubernetesVersion)}, err
	})
}

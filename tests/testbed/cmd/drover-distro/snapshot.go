package main

import (
	"github.com/spf13/cobra"

	"github.com/drover-io/drover/tests/testbed/distro"
)

// serverCommand runs a server, or resets the cluster and exits.
func serverCommand(runtime distro.Runtime) *cobra.Command {
	var flags distro.ServerFlags
	cmd := &cobra.Command{Use: "server", Short: "Run a server", Args: cobra.NoArgs}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		options, err := optionsOf(runtime, cmd)
		if err != nil {
			return err
		}
		options.Flags = flags
		return distro.RunServer(cmd.Context(), options)
	}
	set := cmd.Flags()
	set.BoolVar(&flags.ClusterReset, "cluster-reset", false, "forget all peers and become sole member of a new cluster")
	set.StringVar(&flags.RestorePath, "cluster-reset-restore-path", "", "path to snapshot file to be restored")
	set.StringArrayVar(&flags.EtcdArg, "etcd-arg", nil, "customized flag for etcd process")
	set.BoolVar(&flags.DisableSnapshots, "etcd-disable-snapshots", false, "disable automatic etcd snapshots")
	set.BoolVar(&flags.S3, "etcd-s3", false, "back up to S3; not in the stand-in")
	return cmd
}

// snapshotCommand is "etcd-snapshot" with its subcommands.
func snapshotCommand(runtime distro.Runtime) *cobra.Command {
	root := &cobra.Command{Use: "etcd-snapshot", Short: "Manage snapshots of etcd"}
	named := func(use, short string) *cobra.Command {
		cmd := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs}
		name := cmd.Flags().String("name", "on-demand", "base name of the snapshot")
		retention := cmd.Flags().Int("snapshot-retention", 0, "number of snapshots to retain")
		cmd.RunE = func(cmd *cobra.Command, _ []string) error {
			request := distro.SnapshotRequest{Operation: use, Names: []string{*name}}
			if cmd.Flags().Changed("snapshot-retention") {
				request.Retention = retention
			}
			return ask(runtime, cmd, request)
		}
		return cmd
	}
	root.AddCommand(
		named(distro.SnapshotSave, "Take a snapshot now"),
		named(distro.SnapshotPrune, "Remove snapshots of a name that exceed the number to retain"),
		&cobra.Command{Use: distro.SnapshotList, Aliases: []string{"ls"}, Short: "List snapshots", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return ask(runtime, cmd, distro.SnapshotRequest{Operation: distro.SnapshotList})
			}},
		&cobra.Command{Use: distro.SnapshotDelete, Short: "Delete snapshots", Args: cobra.MinimumNArgs(1),
			RunE: func(cmd *cobra.Command, names []string) error {
				return ask(runtime, cmd, distro.SnapshotRequest{Operation: distro.SnapshotDelete, Names: names})
			}},
	)
	return root
}

func ask(runtime distro.Runtime, cmd *cobra.Command, request distro.SnapshotRequest) error {
	return distro.RunSnapshot(cmd.Context(), distro.Options{Runtime: runtime}, request, cmd.OutOrStdout())
}

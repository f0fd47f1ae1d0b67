package main

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
		flags.Settings = settingsOf(cmd)
		options.Flags = flags
		return distro.RunServer(cmd.Context(), options)
	}
	set := cmd.Flags()
	set.BoolVar(&flags.ClusterReset, "cluster-reset", false, "forget all peers and become sole member of a new cluster")
	set.StringVar(&flags.RestorePath, "cluster-reset-restore-path", "", "path to snapshot file to be restored")
	set.StringArrayVar(&flags.EtcdArg, "etcd-arg", nil, "customized flag for etcd process")
	set.BoolVar(&flags.DisableSnapshots, "etcd-disable-snapshots", false, "disable automatic etcd snapshots")
	addS3Flags(set)
	return cmd
}

// addS3Flags adds the flags of a storage in S3.
func addS3Flags(set *pflag.FlagSet) {
	for name, usage := range map[string]string{
		"etcd-s3": "back up to S3", "etcd-s3-skip-ssl-verify": "do not verify the certificate of S3",
		"etcd-s3-insecure": "use S3 without TLS",
	} {
		set.Bool(name, false, usage)
	}
	for name, usage := range map[string]string{
		"etcd-s3-bucket": "name of the bucket", "etcd-s3-region": "region of the bucket",
		"etcd-s3-folder": "folder in the bucket", "etcd-s3-endpoint": "host and port of S3",
		"etcd-s3-endpoint-ca": "file of the authority of S3", "etcd-s3-access-key": "access key",
		"etcd-s3-secret-key": "secret key", "etcd-s3-timeout": "time limit of a request, as 5m0s",
		"etcd-s3-bucket-lookup-type": "auto, dns or path",
	} {
		set.String(name, "", usage)
	}
	set.Int("etcd-s3-retention", 0, "number of snapshots to retain in S3")
}

// settingsOf returns the flags of a storage in S3 that the command line has.
func settingsOf(cmd *cobra.Command) distro.Settings {
	settings := distro.Settings{}
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if !strings.HasPrefix(flag.Name, "etcd-s3") {
			return
		}
		settings[flag.Name] = flag.Value.String()
		switch flag.Value.Type() {
		case "bool":
			settings[flag.Name] = flag.Value.String() == "true"
		case "int":
			settings[flag.Name], _ = strconv.Atoi(flag.Value.String())
		}
	})
	return settings
}

// snapshotCommand is "etcd-snapshot" with its subcommands.
func snapshotCommand(runtime distro.Runtime) *cobra.Command {
	root := &cobra.Command{Use: "etcd-snapshot", Short: "Manage snapshots of etcd"}
	dataDir := dataDirFlag(root, runtime)
	named := func(use, short string) *cobra.Command {
		cmd := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs}
		name := cmd.Flags().String("name", "on-demand", "base name of the snapshot")
		retention := cmd.Flags().Int("snapshot-retention", 0, "number of snapshots to retain")
		addS3Flags(cmd.Flags())
		cmd.RunE = func(cmd *cobra.Command, _ []string) error {
			request := distro.SnapshotRequest{Operation: use, Names: []string{*name}}
			if cmd.Flags().Changed("snapshot-retention") {
				request.Retention = retention
			}
			return ask(runtime, cmd, dataDir, request)
		}
		return cmd
	}
	list := &cobra.Command{Use: distro.SnapshotList, Aliases: []string{"ls"}, Short: "List snapshots",
		Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			return ask(runtime, cmd, dataDir, distro.SnapshotRequest{Operation: distro.SnapshotList})
		}}
	remove := &cobra.Command{Use: distro.SnapshotDelete, Short: "Delete snapshots", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			return ask(runtime, cmd, dataDir, distro.SnapshotRequest{Operation: distro.SnapshotDelete, Names: names})
		}}
	addS3Flags(list.Flags())
	addS3Flags(remove.Flags())
	root.AddCommand(
		named(distro.SnapshotSave, "Take a snapshot now"),
		named(distro.SnapshotPrune, "Remove snapshots of a name that exceed the number to retain"),
		list, remove,
	)
	return root
}

func ask(runtime distro.Runtime, cmd *cobra.Command, dataDir *string, request distro.SnapshotRequest) error {
	request.Settings = settingsOf(cmd)
	return distro.RunSnapshot(cmd.Context(), distro.Options{Runtime: runtime}, *dataDir, request, cmd.OutOrStdout())
}

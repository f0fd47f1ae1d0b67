package cmd

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/pkg/operate/backup"
)

// backupOptions are the flags of "drover backup" and "drover restore".
type backupOptions struct {
	inspectOptions

	file              string
	namespaces        []string
	everywhere, trial bool
}

// maxBurst prevents client-side throttling of a single command. The API server has its own limits.
const maxBurst = 100

// client has its own user agent, so that a restore's writes differ from a server's writes.
func (o *backupOptions) client(name string) (dynamic.Interface, error) {
	config, err := o.restConfig()
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst, config.UserAgent = maxBurst, 2*maxBurst, name+"/"+Version
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create the client: %w", err)
	}
	return client, nil
}

func newBackupCommand(environ []string, o *backupOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "Copy everything that Drover manages into one file",
		Long: `Copy everything that Drover manages into one file. drover restore creates it again in another
management cluster.

The file holds credentials of clouds, nodes and clusters in clear text. Only you can read it.
Protect it like a private key.

The backup contains:

  * all objects of the kinds whose definitions have the label resources.cattle.io/backup=true
  * all Secrets, ConfigMaps and accounts that have this label themselves
  * all Secrets, ConfigMaps and accounts that belong to such an object, or that a cluster names

The command uses your permissions: you must be allowed to list these kinds, including Secrets.

The command reports what is in progress during the backup. Such a backup is valid, but the clusters
will have changed since.

Exit codes: 0 the backup is written; 1 an error, and there is no file.`,
		Example: `  # back up everything
  drover backup --output drover-2026-11-22.tar.gz

  # back up the clusters of one team, and encrypt the file on the way to the disk
  drover backup -n team-a -o - | age -r age1… > team-a.age`,
		Args: takes(),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			return fillFromEnvironment(cmd.Flags(), environ)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return o.backUp(cmd) },
	}
	addManagement(cmd, environ, &o.kubeconfig, &o.context, fromKubeconfigOrCluster)
	f := cmd.Flags()
	f.StringSliceVarP(&o.namespaces, "namespace", "n", nil,
		"`namespaces` whose clusters are in the backup; without the flag, all namespaces")
	f.BoolVarP(&o.everywhere, "all-namespaces", "A", false,
		"back up the clusters of all namespaces, as without --namespace")
	_ = cmd.RegisterFlagCompletionFunc("namespace", completing(environ, o.namespaceNames))
	f.StringVarP(&o.file, "output", "o", "",
		"`file` to write, which must not exist; - writes to standard output (default drover-backup-TIME.tar.gz)")
	cmd.MarkFlagsMutuallyExclusive("namespace", "all-namespaces")
	return cmd
}

func (o *backupOptions) backUp(cmd *cobra.Command) error {
	client, err := o.client("drover-backup")
	if err != nil {
		return err
	}
	b, err := backup.Collect(cmd.Context(), backup.CollectOptions{Client: client, Namespaces: o.namespaces,
		Version: Version, Now: time.Now})
	if err != nil {
		return err
	}
	path := o.file
	if path == "" {
		path = "drover-backup-" + b.Manifest.CreatedAt.Format("20060102-150405") + ".tar.gz"
	}
	if path == "-" {
		err = b.Write(cmd.OutOrStdout())
	} else {
		err = writeNew(path, b.Write)
	}
	if err != nil {
		return err
	}
	for _, warning := range b.Manifest.Warnings {
		cmd.PrintErrln("warning:", warning)
	}
	clusters := b.Manifest.Counts["Cluster.provisioning.cattle.io"]
	cmd.PrintErrf("%d objects of %d clusters are in %s. It holds credentials in clear text.\n", len(b.Objects),
		clusters, path)
	return nil
}

// writeNew writes a file that only the user can read. The file is complete or does not exist.
func writeNew(path string, write func(io.Writer) error) error {
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("--output: %s exists; choose another name or remove it", path)
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), ".drover-backup-*") // mode 0600
	if err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	defer os.Remove(temporary.Name())
	err = errors.Join(write(temporary), temporary.Sync(), temporary.Close())
	if err == nil {
		err = os.Link(temporary.Name(), path) // unlike a rename, it replaces nothing
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func newRestoreCommand(environ []string, o *backupOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Restore a backup",
		Long: `Restore a backup of drover backup, in another management cluster or in the same one after it has
lost all objects of the backup.

The command changes and deletes no existing object. If an object exists and differs from the
backup, the command restores nothing and names the object. It does not restore a node's plan that
was not applied at the time of the backup. The adoption of the cluster lists what the node gets.

If a restore was interrupted, run it again to continue. Once one of its clusters is adopted, the
command refuses, because it would bring back what was removed since.

Drover only watches restored clusters. No Drover acts on them, and Cluster API is paused for them,
until you adopt them. drover adopt first shows what it would do. It refuses to restart or replace a
machine unless you allow it.

Restore before you install Drover there. Drover then finds the authority of its endpoints in the
backup, which the agents of all machines trust. Agents reconnect by themselves with their existing
credentials, once the server's address leads to the new server. Stop the server that the backup was
made from before you adopt a cluster.

FILE is a file, or - for standard input. The command writes with your permissions.

Exit codes: 0 everything is restored; 1 an error.`,
		Example: `  # what would the restore create?
  drover restore --dry-run drover-2026-11-22.tar.gz

  # restore only the clusters of one team
  drover restore -n team-a drover-2026-11-22.tar.gz

  # restore everything, start Drover, check a cluster, and adopt it
  drover restore drover-2026-11-22.tar.gz
  helm install drover …
  drover adopt demo
  drover adopt demo --yes`,
		Args: takes("FILE"),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			return fillFromEnvironment(cmd.Flags(), environ)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.restore(cmd, args[0]) },
	}
	addManagement(cmd, environ, &o.kubeconfig, &o.context, fromKubeconfigOrCluster)
	f := cmd.Flags()
	f.StringSliceVarP(&o.namespaces, "namespace", "n", nil,
		"`namespaces` whose clusters are restored, with what they need; without the flag, all namespaces")
	_ = cmd.RegisterFlagCompletionFunc("namespace", completing(environ, o.namespaceNames))
	f.BoolVar(&o.trial, "dry-run", false, "show what the restore would create, and create nothing")
	return cmd
}

func (o *backupOptions) restore(cmd *cobra.Command, path string) error {
	b, err := readBackup(cmd.InOrStdin(), path)
	if err != nil {
		return err
	}
	if b, err = b.Of(o.namespaces...); err != nil {
		return fmt.Errorf("--namespace: %w", err)
	}
	client, err := o.client("drover-restore")
	if err != nil {
		return err
	}
	result, err := backup.Restore(cmd.Context(), b, backup.RestoreOptions{Client: client, DryRun: o.trial})
	if result != nil {
		o.tell(cmd, b, result)
	}
	if err != nil && result != nil {
		return fmt.Errorf("the restore is not complete; run the command again to continue: %w", err)
	}
	return err
}

func readBackup(in io.Reader, path string) (*backup.Backup, error) {
	if path == "-" {
		return backup.Read(in)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the backup: %w", err)
	}
	defer file.Close()
	return backup.Read(file)
}

func (o *backupOptions) tell(cmd *cobra.Command, b *backup.Backup, result *backup.Result) {
	made := "Created"
	if o.trial {
		made = "To create"
	}
	_ = o.print(cmd.OutOrStdout(), nil, func(w io.Writer) {
		row(w, "Backup:", b.Manifest.ID+" of "+b.Manifest.CreatedAt.Format(time.RFC3339)+", Drover "+b.Manifest.Version)
		row(w, made+":", strconv.Itoa(len(result.Created)))
		row(w, "Existing:", strconv.Itoa(len(result.Kept)))
		heading(w, "In the backup:")
		for _, kind := range slices.Sorted(maps.Keys(b.Manifest.Counts)) {
			row(w, kind, strconv.Itoa(b.Manifest.Counts[kind]))
		}
		if len(result.Clusters) > 0 {
			heading(w, "Clusters, unchanged until their adoption (drover adopt):")
			for _, cluster := range result.Clusters {
				row(w, cluster)
			}
		}
	})
	for _, warning := range result.Warnings {
		cmd.PrintErrln("warning:", warning)
	}
}

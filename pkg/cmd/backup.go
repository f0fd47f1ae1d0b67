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
		return nil, fmt.Errorf("make client: %w", err)
	}
	return client, nil
}

func newBackupCommand(environ []string, o *backupOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "Copy everything that Drover manages into one file",
		Long: `Copy everything that Drover manages into one file, from which drover restore makes it again in another management cluster.

The file holds credentials in clear text: those of clouds, of nodes and of clusters. It is made readable for you alone; keep it like a key.

All objects of the kinds whose definitions have the label resources.cattle.io/backup=true are in it, and all Secrets, ConfigMaps and accounts that
have it themselves, or belong to one of those, or are named by a cluster. It reads with your rights: you need to be allowed to list these
kinds, Secrets too.

What is under way while the backup is made is told: such a backup is good, but the clusters will have moved on.

Exit codes: 0 the backup is written; 1 an error, and there is no file.`,
		Example: `  # everything
  drover backup --output drover-2026-11-22.tar.gz

  # the clusters of one team, encrypted on the way to the disk
  drover backup -n team-a -o - | age -r age1… > team-a.age`,
		Args: takes(),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			return fillFromEnvironment(cmd.Flags(), environ)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return o.backUp(cmd) },
	}
	addManagement(cmd, environ, &o.kubeconfig, &o.context, fromKubeconfigOrCluster)
	f := cmd.Flags()
	f.StringSliceVarP(&o.namespaces, "namespace", "n", nil, "`namespaces` whose clusters are in the backup; all without it")
	f.BoolVarP(&o.everywhere, "all-namespaces", "A", false, "the clusters of all namespaces, as without --namespace")
	_ = cmd.RegisterFlagCompletionFunc("namespace", completing(environ, o.namespaceNames))
	f.StringVarP(&o.file, "output", "o", "", "`file` to write, which must not exist; - is the standard output (default drover-backup-TIME.tar.gz)")
	cmd.MarkFlagsMutuallyExclusive("namespace", "all-namespaces")
	return cmd
}

func (o *backupOptions) backUp(cmd *cobra.Command) error {
	client, err := o.client("drover-backup")
	if err != nil {
		return err
	}
	b, err := backup.Collect(cmd.Context(), backup.CollectOptions{Client: client, Namespaces: o.namespaces, Version: Version, Now: time.Now})
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
	cmd.PrintErrf("%d objects of %d clusters are in %s. It holds credentials in clear text.\n", len(b.Objects), clusters, path)
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
		Short: "Make everything again that is in a backup",
		Long: `Make everything again that drover backup has copied, in another management cluster or in the one that lost all of it.

Nothing that exists is changed or deleted. A plan for a node that was not applied when the backup was made is not restored: the adoption of its cluster lists
what the node gets. When an object of the backup exists and is another one, nothing at all is restored, and the objects are
named. A restore that was cut off goes on when it is run again, until one of its clusters is adopted: after that it is refused, because it would bring back what
was removed since.

Restored clusters are watched only: no Drover acts on them, and Cluster API is paused for them, until somebody adopts them. drover adopt says
first what that would do, and refuses to restart or replace a machine unless it is told to.

Restore before Drover is installed there: then it finds the authority of its endpoints in the backup, which the agents of all machines trust. Agents
come back by themselves, with the credentials they have, once the server's address leads to the new one. The server that the backup was made of must
run no more before a cluster is adopted.

FILE is a file, or - for the standard input. It writes with your rights.

Exit codes: 0 everything is there; 1 an error.`,
		Example: `  # what would be made?
  drover restore --dry-run drover-2026-11-22.tar.gz

  # the clusters of one team only
  drover restore -n team-a drover-2026-11-22.tar.gz

  # make it, start Drover, look at a cluster, and take it over
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
	f.StringSliceVarP(&o.namespaces, "namespace", "n", nil, "`namespaces` whose clusters are restored, with what they need; all without it")
	_ = cmd.RegisterFlagCompletionFunc("namespace", completing(environ, o.namespaceNames))
	f.BoolVar(&o.trial, "dry-run", false, "say what would be made, and make nothing")
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
		return fmt.Errorf("the restore is not complete; run it again to go on: %w", err)
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
	made := "Made"
	if o.trial {
		made = "To be made"
	}
	_ = o.print(cmd.OutOrStdout(), nil, func(w io.Writer) {
		row(w, "Backup:", b.Manifest.ID+" of "+b.Manifest.CreatedAt.Format(time.RFC3339)+", Drover "+b.Manifest.Version)
		row(w, made+":", strconv.Itoa(len(result.Created)))
		row(w, "There already:", strconv.Itoa(len(result.Kept)))
		heading(w, "In the backup:")
		for _, kind := range slices.Sorted(maps.Keys(b.Manifest.Counts)) {
			row(w, kind, strconv.Itoa(b.Manifest.Counts[kind]))
		}
		if len(result.Clusters) > 0 {
			heading(w, "Clusters, watched only until somebody adopts them (drover adopt):")
			for _, cluster := range result.Clusters {
				row(w, cluster)
			}
		}
	})
	for _, warning := range result.Warnings {
		cmd.PrintErrln("warning:", warning)
	}
}

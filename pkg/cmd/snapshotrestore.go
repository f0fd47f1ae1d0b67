package cmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/drover-io/drover/pkg/decide/planner"
)

// restoreOptions are the flags of drover snapshot restore.
type restoreOptions struct {
	operationOptions
	yes, file bool
	version   string
	// isTerminal defaults to onTerminal.
	isTerminal func(io.Reader) bool
}

func newSnapshotRestoreCommand(environ []string, o *inspectOptions) *cobra.Command {
	r := &restoreOptions{operationOptions: operationOptions{inspectOptions: o}}
	cmd := &cobra.Command{
		Use:   "restore CLUSTER SNAPSHOT",
		Short: "Restore a cluster from an etcd snapshot",
		Long: `Restore a cluster from an etcd snapshot, and discard everything that was written to its API since
then. Everything stops on all machines at once, and starts again with the data of the snapshot.

SNAPSHOT is the name of an ETCDSnapshot in the namespace of the Cluster, as drover snapshot list
shows it. With --file, it is the name of a file on the only machine with etcd, in
server/db/snapshots of the data folder. Drover knows nothing about such a file, and checks nothing.

The command refuses a snapshot of another cluster and a snapshot that failed. It also refuses a
restore that would fail at once, as --dry-run shows.

The command first shows what it would do, and asks for the name of the cluster. Without a terminal,
it needs --yes. It refuses if anything relevant changes between the question and the request. A new
request replaces a restore that runs. Use this when a restore cannot succeed. The command does not
take --yes, --file and --kubernetes-version from the environment.

A restore brings back the data, but not the spec of the Cluster. Machines install the version in the
spec. To return to the version of the snapshot, use --kubernetes-version. It sets
spec.kubernetesVersion together with the request.

The version stays in the spec, whatever the result of the restore. If the restore fails before it
stops machines, they get that version while the cluster is up. The command therefore refuses
--kubernetes-version while another operation runs or waits. It also refuses if it cannot determine
whether the restore would fail at once.

Restore other fields of the spec yourself. docs/operations.md describes how to read them from a
snapshot.

` + helpOfAsking + `

The command also reads the ETCDSnapshot, and what drover preview reads. If you may not read the
latter, restore without --kubernetes-version. drover restore is another command, which creates
Drover's own objects again from a backup.`,
		Example: `  # which snapshots exist, and what would a restore do?
  drover snapshot list demo
  drover snapshot restore demo demo-before-upgrade --dry-run

  # restore the data and the version from before an upgrade, and wait until the cluster is up
  drover snapshot restore demo demo-before-upgrade --kubernetes-version v1.35.3+rke2r1 --wait`,
		Args:              takes("CLUSTER", "SNAPSHOT"),
		ValidArgsFunction: completing(environ, o.snapshotNames),
		PreRunE:           func(cmd *cobra.Command, _ []string) error { return r.complete(cmd, withoutConsent(environ)) },
		RunE:              func(cmd *cobra.Command, args []string) error { return r.run(cmd, args[0], args[1]) },
	}
	r.addFlags(cmd, environ)
	f := cmd.Flags()
	f.BoolVarP(&r.yes, "yes", "y", false, "restore without asking")
	f.BoolVar(&r.file, "file", false, "use SNAPSHOT as the name of a file on the only machine with etcd, not of an ETCDSnapshot")
	f.StringVar(&r.version, "kubernetes-version", "", "`version` to set as spec.kubernetesVersion with the request; empty leaves the field unchanged")
	_ = cmd.RegisterFlagCompletionFunc("kubernetes-version", completing(environ, o.snapshotVersion))
	return cmd
}

// withoutConsent removes the flags from the environment that the user must set for this cluster: --yes, --file and
// --kubernetes-version. The version in the environment may be meant for drover images.
func withoutConsent(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		given := environment([]string{entry})
		return slices.ContainsFunc([]string{"yes", "file", "kubernetes-version"}, func(flag string) bool { _, ok := given[flag]; return ok })
	})
}

func (o *restoreOptions) run(cmd *cobra.Command, cluster, snapshot string) error {
	ctx := cmd.Context()
	asks := order{kind: planner.RestoreOperation, wish: wish{Name: snapshot}, kubernetesVersion: o.version, anew: true}
	b, err := meanwhile(ctx, func() (briefing, error) { return o.brief(ctx, cluster, asks) })
	if err != nil {
		return unaskedFor(ctx, err)
	}
	b.print(cmd.ErrOrStderr(), time.Now())
	if !o.dryRun && !o.yes {
		if err := o.confirm(cmd, cluster); err != nil {
			return err
		}
		if _, err := meanwhile(ctx, func() (struct{}, error) { return struct{}{}, o.stays(ctx, b) }); err != nil {
			return unaskedFor(ctx, err)
		}
	}
	asks.confirmed = new(b.scene.view(asks.kind))
	return o.operationOptions.run(cmd, cluster, asks)
}

// onTerminal reports whether an input is a terminal.
func onTerminal(in io.Reader) bool {
	file, ok := in.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// confirm asks the user to type the name of the cluster.
func (o *restoreOptions) confirm(cmd *cobra.Command, cluster string) error {
	isTerminal := o.isTerminal
	if isTerminal == nil {
		isTerminal = onTerminal
	}
	if !isTerminal(cmd.InOrStdin()) {
		return errors.New("there is no terminal to ask on, and nothing was asked for; --yes restores without asking")
	}
	cmd.PrintErr("Type the name of the cluster to restore it: ")
	answer, err := readLine(cmd.Context(), cmd.InOrStdin())
	if err != nil {
		return fmt.Errorf("nothing was asked for: %w", err)
	}
	if answer != cluster {
		return fmt.Errorf("%q is not the name of the cluster, which is %q: nothing was asked for", answer, cluster)
	}
	return nil
}

// readLine reads a line from the user until the context ends. A read from a terminal cannot be stopped, so it stays
// blocked until the program ends.
func readLine(ctx context.Context, in io.Reader) (string, error) {
	return meanwhile(ctx, func() (string, error) {
		text, err := bufio.NewReader(in).ReadString('\n')
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return strings.TrimSpace(text), err
	})
}

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
		Short: "Take a cluster back to a snapshot of its etcd",
		Long: `Take a cluster back to a snapshot of its etcd, and give up everything that was written to its API since. Everything is stopped on all machines, at once, and starts
again on the data of the snapshot.

SNAPSHOT is the name of an ETCDSnapshot in the namespace of the Cluster, which drover snapshot list shows. With --file it is the name of a file in server/db/snapshots of the data folder
of the only machine with etcd, and nothing is known of it, or checked. A snapshot of another cluster, and one that failed, are refused, and so is a restore that would fail at once, as
--dry-run tells.

The command says first what it would do, and asks for the name of the cluster. Without a terminal to ask on it needs --yes. What changes between that and the request makes it refuse.
A restore that runs is no obstacle: another request begins anew, which is the way out of one that cannot work. --yes, --file and --kubernetes-version are not taken from the environment.

Data go back, and the spec of the Cluster does not: machines install the version that it has. --kubernetes-version sets spec.kubernetesVersion with the request, to go back to the version
of the snapshot. It stays in the spec, whatever becomes of the restore: if the restore fails before it stops machines, they get that version while the cluster is up. So it is refused while
another operation runs or waits, and where it cannot be said whether the restore would fail at once. What else the spec was is yours to put back: docs/operations.md tells how to read it
from a snapshot.

` + helpOfAsking + `

It also reads the ETCDSnapshot, and what drover preview reads: who may not read that restores without --kubernetes-version. drover restore is another command: it makes the objects of
Drover itself again, from a backup.`,
		Example: `  # what can it go back to, and what would that do?
  drover snapshot list demo
  drover snapshot restore demo demo-before-upgrade --dry-run

  # go back to the data and the version of before an upgrade, and wait until the cluster is up
  drover snapshot restore demo demo-before-upgrade --kubernetes-version v1.35.3+rke2r1 --wait`,
		Args:              takes("CLUSTER", "SNAPSHOT"),
		ValidArgsFunction: completing(environ, o.snapshotNames),
		PreRunE:           func(cmd *cobra.Command, _ []string) error { return r.complete(cmd, withoutConsent(environ)) },
		RunE:              func(cmd *cobra.Command, args []string) error { return r.run(cmd, args[0], args[1]) },
	}
	r.addFlags(cmd, environ)
	f := cmd.Flags()
	f.BoolVarP(&r.yes, "yes", "y", false, "do it without asking")
	f.BoolVar(&r.file, "file", false, "SNAPSHOT is the name of a file on the only machine with etcd, and not of an ETCDSnapshot")
	f.StringVar(&r.version, "kubernetes-version", "", "`version` that spec.kubernetesVersion is set to with the request; left alone when it is empty")
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

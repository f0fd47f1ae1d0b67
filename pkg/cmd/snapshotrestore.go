package cmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/api/equality"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/redact"
	"github.com/drover-io/drover/pkg/operate/edit"
	"github.com/drover-io/drover/pkg/operate/inspect"
	"github.com/drover-io/drover/pkg/operate/operation"
	"github.com/drover-io/drover/pkg/operate/preview"
	"github.com/drover-io/drover/pkg/operate/restore"
)

// restoreOptions are the flags of drover snapshot restore.
type restoreOptions struct {
	operationOptions
	yes, file bool
	version   string
	// mode is --restore-config. printSpec prints the fields that go back, and requests nothing.
	mode      string
	printSpec bool
	// isTerminal is onTerminal, except in tests.
	isTerminal func(io.Reader) bool
}

func newRestoreOptions(o *inspectOptions) *restoreOptions {
	r := &restoreOptions{operationOptions: operationOptions{inspectOptions: o}, isTerminal: onTerminal}
	r.review = r.agree
	return r
}

func newSnapshotRestoreCommand(environ []string, o *inspectOptions) *cobra.Command {
	r := newRestoreOptions(o)
	cmd := r.command(environ, &cobra.Command{
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
take flags of its own from the environment.

A restore brings back the data. With --restore-config, it also sets fields of the Cluster's spec to
their values in the snapshot: kubernetesVersion sets the version, and all sets the version and the
configuration, but not the pools. The command lists these fields, and hides secrets. Machines get
the configuration after they have stopped. If the restore fails before that, no machine changes
until you send another request, or remove the request.

With GitOps, commit the fields that go back, because the tool would set them to the values in the
repository. --print-spec prints this part of the manifest, with secrets, and requests nothing.

To restore the data into another version, use --kubernetes-version. It sets spec.kubernetesVersion
together with the request. If the restore fails before it stops machines, they get that version
while the cluster is up. The command therefore refuses --kubernetes-version while another operation
runs or waits. It also refuses if it cannot determine whether the restore would fail at once.

` + helpOfAsking + `

The command also reads the ETCDSnapshot, and what drover preview reads. If you may not read the
latter, restore without --kubernetes-version. drover restore is another command, which creates
Drover's own objects again from a backup.`,
		Example: `  # which snapshots exist, and what would a restore do?
  drover snapshot list demo
  drover snapshot restore demo demo-before-upgrade --dry-run

  # restore the data and the configuration from before an upgrade, and wait until the cluster is up
  drover snapshot restore demo demo-before-upgrade --restore-config all --wait

  # print the part of the manifest that goes back, to commit it
  drover snapshot restore demo demo-before-upgrade --restore-config all --print-spec`,
		Args:              takes("CLUSTER", "SNAPSHOT"),
		ValidArgsFunction: completing(environ, o.snapshotNames),
	}, func(_ *cobra.Command, args []string) (order, error) { return r.order(args[1]), r.checkMode() })
	request := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if r.printSpec {
			return r.printManifest(cmd, args[0], args[1])
		}
		return request(cmd, args)
	}
	f := cmd.Flags()
	f.BoolVarP(&r.yes, "yes", "y", false, "restore without asking")
	f.BoolVar(&r.file, "file", false,
		"use SNAPSHOT as the name of a file on the only machine with etcd, not of an ETCDSnapshot")
	f.StringVar(&r.version, "kubernetes-version", "",
		"`version` to set as spec.kubernetesVersion with the request; empty leaves the field unchanged")
	f.StringVar(&r.mode, "restore-config", string(rkev1.RestoreModeNone),
		"`part` of the spec that goes back to the snapshot's: none, kubernetesVersion or all")
	f.BoolVar(&r.printSpec, "print-spec", false,
		"print the manifest of the fields that go back, with secrets, and request nothing")
	cmd.MarkFlagsMutuallyExclusive("restore-config", "kubernetes-version")
	cmd.MarkFlagsMutuallyExclusive("restore-config", "file")
	cmd.MarkFlagsMutuallyExclusive("print-spec", "dry-run")
	cmd.MarkFlagsMutuallyExclusive("print-spec", "wait")
	_ = cmd.RegisterFlagCompletionFunc("restore-config", cobra.FixedCompletions(modeNames(),
		cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("kubernetes-version", completing(environ, o.snapshotVersion))
	return cmd
}

func (o *restoreOptions) order(snapshot string) order {
	out := order{
		Kind: planner.RestoreOperation, Wish: wish{Name: snapshot}, KubernetesVersion: o.version, ReplacesRunning: true,
	}
	if mode := rkev1.RestoreMode(o.mode); mode != rkev1.RestoreModeNone {
		out.Wish.RestoreRKEConfig = mode
	}
	return out
}

// agree shows what a restore gives up, and asks the user. It verifies that the snapshot has not changed since: without
// its object, the name would count as the name of a file.
func (o *restoreOptions) agree(cmd *cobra.Command, s scene, notes []string, asks *order) error {
	ctx := cmd.Context()
	b, err := meanwhile(ctx, func() (briefing, error) { return o.brief(ctx, s, notes, *asks) })
	if err != nil {
		return err
	}
	b.print(cmd.ErrOrStderr(), time.Now())
	asks.Confirmed, asks.Restored = &s, b.Object
	if o.dryRun || o.yes {
		return nil
	}
	if err := o.confirm(cmd, s.Cluster.Name); err != nil {
		return err
	}
	now, err := meanwhile(ctx, func() (*inspect.Snapshot, error) { return o.find(ctx, s, asks.Wish.Name) })
	if err == nil && !equality.Semantic.DeepEqual(now, b.Snapshot) {
		err = fmt.Errorf("snapshot %s is not what was shown any more; nothing was asked for", asks.Wish.Name)
	}
	return err
}

// onTerminal reports whether an input is a terminal.
func onTerminal(in io.Reader) bool {
	file, ok := in.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// confirm asks the user to type the name of the cluster.
func (o *restoreOptions) confirm(cmd *cobra.Command, cluster string) error {
	if !o.isTerminal(cmd.InOrStdin()) {
		return errors.New("there is no terminal to ask on, and nothing was asked for; --yes restores without asking")
	}
	cmd.PrintErr("Type the name of the cluster to restore it: ")
	answer, err := readLine(cmd.Context(), cmd.InOrStdin())
	switch {
	case err != nil:
		return fmt.Errorf("read the name of the cluster, nothing was asked for: %w", err)
	case answer != cluster:
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

// briefing is what the user reads before a restore is requested.
type briefing struct {
	restore.Briefing
	// management describes the management cluster.
	management string
	notes      []string
}

// gatherer reads what a restore would do.
func (o *restoreOptions) gatherer(ctx context.Context, s scene) restore.Gatherer {
	g := restore.Gatherer{
		Plain: func() (*inspect.Reader, error) { return o.plainReader(ctx, s.Cluster.Namespace) },
		Full:  func() (*inspect.Reader, error) { return o.reader(ctx, s.Cluster.Namespace) },
	}
	if o.dryRun {
		g.Full = nil // --dry-run reports failures itself
	}
	return g
}

// brief determines what the restore gives up, and refuses impossible requests.
func (o *restoreOptions) brief(ctx context.Context, s scene, notes []string, asks order) (briefing, error) {
	b := briefing{notes: notes}
	config, err := o.restConfig()
	if err != nil {
		return b, err
	}
	b.management = managementText(config.Host, o.context)
	if err := checkVersion(asks.KubernetesVersion, s.Cluster.Spec.KubernetesVersion); err != nil {
		return b, err
	}
	snapshot, err := o.find(ctx, s, asks.Wish.Name)
	if err != nil {
		return b, err
	}
	if b.Briefing, err = o.gatherer(ctx, s).Brief(s, asks, snapshot); err != nil {
		return b, err
	}
	if asks.Wish.RestoreRKEConfig != "" {
		b.notes = append(b.notes,
			"with GitOps, commit these fields, or the tool sets them back; --print-spec prints them")
	}
	if o.dryRun {
		return b, nil
	}
	foreseen, err := foreseen(b.Report, flagged(b.Unforeseen), asks)
	b.notes = append(b.notes, foreseen...)
	return b, err
}

// find looks up the snapshot, nil for a file. It refuses a snapshot that cannot be restored, whatever the machines are.
func (o *restoreOptions) find(ctx context.Context, s scene, name string) (*inspect.Snapshot, error) {
	found, err := o.gatherer(ctx, s).Find(ctx, s, name)
	absent, isAbsent := errors.AsType[*restore.AbsentError](err)
	switch {
	case isAbsent && o.file:
		return nil, nil
	case isAbsent:
		return nil, unlisted(absent, s)
	case found != nil && o.file:
		return nil, fmt.Errorf("there is an ETCDSnapshot %s, and by that name it would be restored: leave out --file",
			found.Name)
	}
	return found, err
}

// foreseen returns the notes of a restore's preview. It refuses a restore that would fail at once. With a version it
// also refuses a restore without a preview.
func foreseen(report preview.Report, err error, asks order) ([]string, error) {
	problem := printable(report.OperationProblem(operation.FieldPath(asks.Kind)))
	switch {
	case err != nil && asks.KubernetesVersion != "":
		return nil, fmt.Errorf(
			"it cannot be said whether the restore would fail, and --kubernetes-version would stay in the spec: "+
				"nothing was asked for; leave it out to ask all the same: %w", err)
	case err != nil:
		note := "it cannot be said whether it would fail at once: " + err.Error()
		return []string{note}, nil //nolint:nilerr // it is told, and is no obstacle without a version
	case problem != "":
		return nil, fmt.Errorf("the %s would fail, and nothing was asked for: %s", asks.Kind.Title, problem)
	}
	var notes []string
	for _, warning := range report.Warnings {
		if warning.Field == fieldVersion {
			notes = append(notes, warning.Message)
		}
	}
	return notes, nil
}

// unlisted refuses a name without an ETCDSnapshot. A file with an ETCDSnapshot is restored by the name of the
// ETCDSnapshot.
func unlisted(absent *restore.AbsentError, s scene) error {
	hint := "--file says that it is the name of a file on the only machine with etcd"
	if absent.Instead != "" {
		hint = "that is the name of a file, and the ETCDSnapshot of it is " + absent.Instead
	}
	return fmt.Errorf(
		"there is no ETCDSnapshot %s in namespace %s, and nothing was asked for; drover snapshot list %s -n %s "+
			"lists those that are there; %s",
		absent.Name, absent.Namespace, s.Cluster.Name, s.Cluster.Namespace, hint)
}

// checkVersion refuses an impossible version, or a version of another distribution.
func checkVersion(version, now string) error {
	if version == "" {
		return nil
	}
	if err := edit.CheckVersion(version, now); err != nil {
		return fmt.Errorf("--kubernetes-version: %w", err)
	}
	return nil
}

// flagWords are the texts of a briefing that name flags.
var flagWords = restore.Words{
	File:    ": --file says that it is the name of a file",
	Version: ", which --kubernetes-version asks for", Config: ", which --restore-config puts back",
	Offer: "; --restore-config kubernetesVersion goes back to that of the snapshot",
}

// print writes the effects of a restore.
func (b briefing) print(out io.Writer, now time.Time) {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	row(w, "Management:", b.management)
	for _, line := range b.Lines(now, flagWords) {
		row(w, line.Label+":", line.Text)
	}
	if b.Order.Wish.RestoreRKEConfig != "" && len(b.Restored) == 0 {
		row(w, "Goes back:", "nothing: the spec has what the snapshot contains")
	}
	for _, field := range b.Restored {
		row(w, "Goes back:", field.Field+": "+printable(field.Old)+" → "+printable(field.New))
	}
	for _, note := range b.notes {
		row(w, "Note:", note)
	}
	_ = w.Flush()
	_, _ = fmt.Fprintln(out, restore.Consequence)
}

// managementText describes a management cluster: the address of its API server, and the context if the user named one.
func managementText(host, context string) string {
	if context == "" {
		return redact.Address(host)
	}
	return redact.Address(host) + ", context " + context
}

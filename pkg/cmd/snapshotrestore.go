package cmd

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
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
	"github.com/drover-io/drover/pkg/operate/preview"
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
		kind: planner.RestoreOperation, wish: wish{Name: snapshot}, kubernetesVersion: o.version, replacesRunning: true,
	}
	if mode := rkev1.RestoreMode(o.mode); mode != rkev1.RestoreModeNone {
		out.wish.RestoreRKEConfig = mode
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
	asks.confirmed, asks.restored = &s, b.object
	if o.dryRun || o.yes {
		return nil
	}
	if err := o.confirm(cmd, s.cluster.Name); err != nil {
		return err
	}
	now, err := meanwhile(ctx, func() (*inspect.Snapshot, error) { return o.find(ctx, s, asks.wish.Name) })
	if err == nil && !equality.Semantic.DeepEqual(now, b.snapshot) {
		err = fmt.Errorf("snapshot %s is not what was shown any more; nothing was asked for", asks.wish.Name)
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
	// management describes the management cluster.
	management string
	scene      scene
	asks       order
	// snapshot is nil for a file.
	snapshot *inspect.Snapshot
	// object is the snapshot whose configuration goes back, nil if none does. restored are the fields.
	object   *rkev1.ETCDSnapshot
	restored []preview.Restored
	notes    []string
}

// brief determines what the restore gives up, and refuses impossible requests.
func (o *restoreOptions) brief(ctx context.Context, s scene, notes []string, asks order) (briefing, error) {
	b := briefing{scene: s, asks: asks, notes: notes}
	config, err := o.restConfig()
	if err != nil {
		return b, err
	}
	b.management = managementText(config.Host, o.context)
	if err := checkVersion(asks.kubernetesVersion, s.cluster.Spec.KubernetesVersion); err != nil {
		return b, err
	}
	if b.snapshot, err = o.find(ctx, s, asks.wish.Name); err != nil {
		return b, err
	}
	if asks.wish.RestoreRKEConfig != "" {
		result, object, err := o.configuration(ctx, s, asks)
		if err != nil {
			return b, err
		}
		b.object, b.restored = object, inspect.ShownChanges(result.Changes)
		b.notes = append(b.notes,
			"with GitOps, commit these fields, or the tool sets them back; --print-spec prints them")
	}
	if o.dryRun {
		return b, nil // --dry-run reports failures itself
	}
	report, err := o.foresee(ctx, s, asks)
	foreseen, err := foreseen(report, err, asks)
	b.notes = append(b.notes, foreseen...)
	return b, err
}

// find looks up the snapshot, nil for a file. It refuses a snapshot that cannot be restored, whatever the machines are.
func (o *restoreOptions) find(ctx context.Context, s scene, name string) (*inspect.Snapshot, error) {
	r, err := o.plainReader(ctx, s.cluster.Namespace)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	found, err := r.Snapshot(name)
	lists := fmt.Sprintf("drover snapshot list %s -n %s lists ", s.cluster.Name, s.cluster.Namespace)
	switch {
	case err != nil:
	case found == nil && !o.file:
		known, unread := r.Snapshots(ctx, s.cluster.Name)
		err = unlisted(known, unread, s, name)
	case found == nil:
	case o.file:
		err = fmt.Errorf("there is an ETCDSnapshot %s, and by that name it would be restored: leave out --file",
			found.Name)
	case found.Cluster != "" && found.Cluster != s.cluster.Name:
		err = fmt.Errorf("snapshot %s is of cluster %s, not of %s; %sthose that are",
			found.Name, printable(found.Cluster), s.cluster.Name, lists)
	case found.Failed():
		why := strings.Join(strings.Fields(printable(found.Message)), " ")
		err = fmt.Errorf("snapshot %s was not taken: %s; %sothers", found.Name, why, lists)
	}
	return found, err
}

// foreseen returns the notes of a restore's preview. It refuses a restore that would fail at once. With a version it
// also refuses a restore without a preview.
func foreseen(report preview.Report, err error, asks order) ([]string, error) {
	problem := printable(report.OperationProblem(fieldPath(asks.kind)))
	switch {
	case err != nil && asks.kubernetesVersion != "":
		return nil, fmt.Errorf(
			"it cannot be said whether the restore would fail, and --kubernetes-version would stay in the spec: "+
				"nothing was asked for; leave it out to ask all the same: %w", err)
	case err != nil:
		note := "it cannot be said whether it would fail at once: " + err.Error()
		return []string{note}, nil //nolint:nilerr // it is told, and is no obstacle without a version
	case problem != "":
		return nil, fmt.Errorf("the %s would fail, and nothing was asked for: %s", asks.kind.Title, problem)
	}
	var notes []string
	for _, warning := range report.Warnings {
		if warning.Field == fieldVersion {
			notes = append(notes, warning.Message)
		}
	}
	return notes, nil
}

// unlisted refuses a name without an ETCDSnapshot. A mistyped name would count as the name of a file, and a cluster
// with one etcd machine would be stopped for it. A file with an ETCDSnapshot is restored by the name of the
// ETCDSnapshot.
func unlisted(known inspect.Snapshots, unread error, s scene, name string) error {
	hint := "--file says that it is the name of a file on the only machine with etcd"
	if i := slices.IndexFunc(known.Snapshots, func(k inspect.Snapshot) bool {
		return k.File == name
	}); unread == nil && i >= 0 {
		hint = "that is the name of a file, and the ETCDSnapshot of it is " + known.Snapshots[i].Name
	}
	return fmt.Errorf(
		"there is no ETCDSnapshot %s in namespace %s, and nothing was asked for; drover snapshot list %s -n %s "+
			"lists those that are there; %s",
		name, s.cluster.Namespace, s.cluster.Name, s.cluster.Namespace, hint)
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

// print writes the effects of a restore.
func (b briefing) print(out io.Writer, now time.Time) {
	s, asks, is := b.scene, b.asks, b.scene.cluster.Spec.KubernetesVersion
	found := inspect.Snapshot{Name: asks.wish.Name + ", which is no ETCDSnapshot of namespace " + s.cluster.Namespace +
		": --file says that it is the name of a file"}
	place := "the only machine with etcd, in server/db/snapshots; with more than one machine the restore fails, and " +
		"stops nothing"
	if b.snapshot != nil {
		found, place = *b.snapshot, b.snapshot.Place()
	}
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	row(w, "Management:", b.management)
	row(w, "Cluster:", s.name())
	row(w, "Snapshot:", found.Name)
	if found.Cluster == "" {
		row(w, "Of cluster:", orUnknown(""))
	}
	row(w, "Taken:", takenText(found, now))
	row(w, "Kept by:", place)
	row(w, "Version then:", orUnknown(found.KubernetesVersion))
	row(w, "Version now:", orUnknown(is))
	row(w, "Version after:", versionAfter(found.KubernetesVersion, is, asks))
	if asks.wish.RestoreRKEConfig != "" && len(b.restored) == 0 {
		row(w, "Goes back:", "nothing: the spec has what the snapshot contains")
	}
	for _, field := range b.restored {
		row(w, "Goes back:", field.Field+": "+printable(field.Old)+" → "+printable(field.New))
	}
	for _, note := range b.notes {
		row(w, "Note:", note)
	}
	_ = w.Flush()
	_, _ = fmt.Fprintln(out,
		"Everything that was written to the cluster's API since the snapshot is given up. All machines are stopped "+
			"at once.")
}

func orUnknown(version string) string { return cmp.Or(version, "not known") }

// takenText describes when a snapshot was taken.
func takenText(s inspect.Snapshot, now time.Time) string {
	if s.TakenAt == nil {
		return orUnknown("")
	}
	return s.TakenAt.UTC().Format(time.RFC3339) + ", " + ageText(s, now) + " ago"
}

// versionAfter describes the version after a restore, and how to get the snapshot's version.
func versionAfter(then, now string, asked order) string {
	switch {
	case asked.kubernetesVersion != "":
		return asked.kubernetesVersion + ", which --kubernetes-version asks for"
	case asked.wish.RestoreRKEConfig != "":
		return then + ", which --restore-config puts back"
	case then != "" && then != now:
		return orUnknown(now) + "; --restore-config kubernetesVersion goes back to that of the snapshot"
	}
	return orUnknown(now)
}

// managementText describes a management cluster: the address of its API server, and the context if the user named one.
func managementText(host, context string) string {
	if context == "" {
		return redact.Address(host)
	}
	return redact.Address(host) + ", context " + context
}

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

	"github.com/Masterminds/semver/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/redact"
	"github.com/drover-io/drover/pkg/operate/inspect"
	"github.com/drover-io/drover/pkg/operate/preview"
)

// restoreOptions are the flags of drover snapshot restore.
type restoreOptions struct {
	operationOptions
	yes, file bool
	version   string
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
	}, func(_ *cobra.Command, args []string) (order, error) { return r.order(args[1]), nil })
	f := cmd.Flags()
	f.BoolVarP(&r.yes, "yes", "y", false, "restore without asking")
	f.BoolVar(&r.file, "file", false,
		"use SNAPSHOT as the name of a file on the only machine with etcd, not of an ETCDSnapshot")
	f.StringVar(&r.version, "kubernetes-version", "",
		"`version` to set as spec.kubernetesVersion with the request; empty leaves the field unchanged")
	_ = cmd.RegisterFlagCompletionFunc("kubernetes-version", completing(environ, o.snapshotVersion))
	return cmd
}

func (o *restoreOptions) order(snapshot string) order {
	return order{
		kind: planner.RestoreOperation, wish: wish{Name: snapshot}, kubernetesVersion: o.version, replacesRunning: true,
	}
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
	asks.confirmed = &s
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
	if b.snapshot, err = o.find(ctx, s, asks.wish.Name); err != nil || o.dryRun {
		return b, err // --dry-run reports failures itself
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
		return []string{"it cannot be said whether it would fail at once: " + err.Error()}, nil //nolint:nilerr // it is told, and is no obstacle without a version
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

// checkVersion refuses an impossible version, or a version of another distribution. The build metadata must name the
// distribution. Drover would take a version without it for RKE2, but no such release exists.
func checkVersion(version, now string) error {
	if version == "" {
		return nil
	}
	number, hasPrefix := strings.CutPrefix(version, "v")
	parsed, err := semver.StrictNewVersion(number)
	if err != nil || !hasPrefix {
		return fmt.Errorf(
			"--kubernetes-version: %q must be v and a semantic version, for example v1.36.2+rke2r1 or v1.36.2+k3s1",
			version)
	}
	is := distro.RuntimeOf(version)
	if !strings.HasPrefix(parsed.Metadata(), is.Command()) {
		return fmt.Errorf(
			"--kubernetes-version: %q must name a distribution behind +, for example v1.36.2+rke2r1 or v1.36.2+k3s1",
			version)
	}
	if was := distro.RuntimeOf(now); now != "" && was != is {
		return fmt.Errorf("--kubernetes-version: %q is a version of %s, and the cluster is one of %s", version, is, was)
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
	row(w, "Version after:", versionAfter(found.KubernetesVersion, is, asks.kubernetesVersion))
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
func versionAfter(then, now, asked string) string {
	switch {
	case asked != "":
		return asked + ", which --kubernetes-version asks for"
	case then != "" && then != now:
		return orUnknown(now) + "; --kubernetes-version " + then + " goes back to that of the snapshot"
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

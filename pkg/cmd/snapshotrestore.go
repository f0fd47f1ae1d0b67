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
	"text/tabwriter"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/drover-io/drover/pkg/distro"
	"github.com/drover-io/drover/pkg/inspect"
	"github.com/drover-io/drover/pkg/planner"
)

// restoreOptions are the flags of drover snapshot restore.
type restoreOptions struct {
	operationOptions
	yes     bool
	version string
	// isTerminal is onTerminal where it is nil.
	isTerminal func(io.Reader) bool
}

func newSnapshotRestoreCommand(environ []string, o *inspectOptions) *cobra.Command {
	r := &restoreOptions{operationOptions: operationOptions{inspectOptions: o}}
	cmd := &cobra.Command{
		Use:   "restore CLUSTER SNAPSHOT",
		Short: "Take a cluster back to a snapshot of its etcd",
		Long: `Take a cluster back to a snapshot of its etcd, and give up everything that was written to its API since. Everything is stopped on all machines, at once, and starts
again on the data of the snapshot.

SNAPSHOT is the name of an ETCDSnapshot in the namespace of the Cluster, which drover snapshot list shows. Any other name is that of a file in server/db/snapshots of the data folder of
the only machine with etcd. A snapshot of another cluster, and one that failed, are refused.

The command says first what it would do, and asks for the name of the cluster. Without a terminal to ask on it needs --yes. A restore that runs is no obstacle: another request begins
anew, which is the way out of one that cannot work.

Data go back, and the spec of the Cluster does not: machines install the version that it has. --kubernetes-version sets spec.kubernetesVersion with the request, to go back to the version
of the snapshot. What else the spec was is yours to put back: docs/operations.md tells how to read it from a snapshot.

` + helpOfAsking + `

It also reads the ETCDSnapshot. drover restore is another command: it makes the objects of Drover itself again, from a backup.`,
		Example: `  # what can it go back to, and what would that do?
  drover snapshot list demo
  drover snapshot restore demo demo-before-upgrade --dry-run

  # go back to the data and the version of before an upgrade, and wait until the cluster is up
  drover snapshot restore demo demo-before-upgrade --kubernetes-version v1.35.3+rke2r1 --wait`,
		Args:              takes("CLUSTER", "SNAPSHOT"),
		ValidArgsFunction: completing(environ, o.snapshotNames),
		PreRunE:           func(cmd *cobra.Command, _ []string) error { return r.complete(cmd, withoutVersion(environ)) },
		RunE:              func(cmd *cobra.Command, args []string) error { return r.run(cmd, args[0], args[1]) },
	}
	r.addFlags(cmd, environ)
	f := cmd.Flags()
	f.BoolVarP(&r.yes, "yes", "y", false, "do it without asking")
	f.StringVar(&r.version, "kubernetes-version", "", "`version` that spec.kubernetesVersion is set to with the request; left alone when it is empty")
	_ = cmd.RegisterFlagCompletionFunc("kubernetes-version", completing(environ, o.snapshotVersion))
	return cmd
}

// withoutVersion keeps a version away that somebody has in the environment for drover images: nobody's cluster gets another version by that.
func withoutVersion(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(entry string) bool { return strings.HasPrefix(entry, environmentPrefix+"KUBERNETES_VERSION=") })
}

func (o *restoreOptions) run(cmd *cobra.Command, cluster, snapshot string) error {
	asks := order{kind: planner.RestoreOperation, wish: wish{Name: snapshot}, kubernetesVersion: o.version, anew: true}
	if err := o.brief(cmd, cluster, asks); err != nil {
		return err
	}
	if !o.dryRun && !o.yes {
		if err := o.confirm(cmd, cluster); err != nil {
			return err
		}
	}
	return o.operationOptions.run(cmd, cluster, asks)
}

// brief says what the restore gives up, and refuses what must not be asked for.
func (o *restoreOptions) brief(cmd *cobra.Command, cluster string, asks order) error {
	api, stop, err := o.api()
	if err != nil {
		return err
	}
	defer stop()
	namespace := orDefault(o.namespace)
	s, err := api.survey(namespace, cluster)
	if err != nil {
		return err
	}
	_, notes, err := s.place(asks)
	if err != nil {
		return err
	}
	if err := checkVersion(asks.kubernetesVersion, s.cluster.Spec.KubernetesVersion); err != nil {
		return err
	}
	r, err := o.reader(cmd.Context(), namespace)
	if err != nil {
		return err
	}
	defer r.Close()
	found, err := r.Snapshot(asks.wish.Name)
	if err != nil {
		return err
	}
	if err := restorable(found, s); err != nil {
		return err
	}
	printBriefing(cmd.ErrOrStderr(), s, asks, found, notes, time.Now())
	return nil
}

// restorable refuses a snapshot that the cluster cannot be restored from, whatever its machines are.
func restorable(found *inspect.Snapshot, s scene) error {
	switch {
	case found == nil:
		return nil
	case found.Cluster != "" && found.Cluster != s.cluster.Name:
		return fmt.Errorf("snapshot %s is of cluster %s, not of %s; drover snapshot list %s -n %s lists those that are",
			found.Name, found.Cluster, s.cluster.Name, s.cluster.Name, s.cluster.Namespace)
	case found.Failed():
		return fmt.Errorf("snapshot %s was not taken: %s; drover snapshot list %s -n %s lists others",
			found.Name, strings.Join(strings.Fields(found.Message), " "), s.cluster.Name, s.cluster.Namespace)
	}
	return nil
}

// checkVersion refuses a version that no cluster has, or not one of that distribution.
func checkVersion(version, now string) error {
	if version == "" {
		return nil
	}
	number, hasPrefix := strings.CutPrefix(version, "v")
	if _, err := semver.StrictNewVersion(number); err != nil || !hasPrefix {
		return fmt.Errorf("--kubernetes-version: %q must be v and a semantic version, for example v1.36.2+rke2r1 or v1.36.2+k3s1", version)
	}
	if was, is := distro.RuntimeOf(now), distro.RuntimeOf(version); now != "" && was != is {
		return fmt.Errorf("--kubernetes-version: %q is a version of %s, and the cluster is one of %s", version, is, was)
	}
	return nil
}

// printBriefing says what a restore does. found is nil for a file.
func printBriefing(out io.Writer, s scene, asks order, found *inspect.Snapshot, notes []string, now time.Time) {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	row(w, "Cluster:", s.name())
	then := ""
	if found == nil {
		row(w, "Snapshot:", asks.wish.Name+", which is no ETCDSnapshot of namespace "+s.cluster.Namespace+" and counts as the name of a file")
		row(w, "Taken:", "not known, and neither is of which cluster")
		row(w, "Kept by:", "the only machine with etcd, in server/db/snapshots; with more than one machine the restore fails, and stops nothing")
	} else {
		then = found.KubernetesVersion
		row(w, "Snapshot:", found.Name)
		row(w, "Taken:", takenText(*found, now))
		row(w, "Kept by:", found.Place())
	}
	is := s.cluster.Spec.KubernetesVersion
	row(w, "Version then:", orUnknown(then))
	row(w, "Version now:", orUnknown(is))
	row(w, "Version after:", versionAfter(then, is, asks.kubernetesVersion))
	for _, note := range notes {
		row(w, "Note:", note)
	}
	_ = w.Flush()
	_, _ = fmt.Fprintln(out, "Everything that was written to the cluster's API since the snapshot is given up. All machines are stopped at once.")
}

func orUnknown(version string) string {
	if version == "" {
		return "not known"
	}
	return version
}

// takenText is when a snapshot was taken.
func takenText(s inspect.Snapshot, now time.Time) string {
	if s.TakenAt == nil {
		return "not known"
	}
	return s.TakenAt.UTC().Format(time.RFC3339) + ", " + ageText(s, now) + " ago"
}

// versionAfter is the version that the cluster has after a restore, and how to have that of the snapshot.
func versionAfter(then, now, asked string) string {
	switch {
	case asked != "" && then != "" && asked != then:
		return asked + ", which --kubernetes-version asks for, and not that of the snapshot"
	case asked != "":
		return asked + ", which --kubernetes-version asks for"
	case then != "" && then != now:
		return orUnknown(now) + "; --kubernetes-version " + then + " goes back to that of the snapshot"
	}
	return orUnknown(now)
}

// onTerminal reports that somebody sits in front of an input.
func onTerminal(in io.Reader) bool {
	file, ok := in.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// confirm has the user type the name of the cluster.
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

// readLine reads what the user types, until the context ends: a terminal cannot be asked to stop, so the reading is left behind with the program.
func readLine(ctx context.Context, in io.Reader) (string, error) {
	type line struct {
		text string
		err  error
	}
	typed := make(chan line, 1)
	go func() {
		text, err := bufio.NewReader(in).ReadString('\n')
		if errors.Is(err, io.EOF) {
			err = nil
		}
		typed <- line{strings.TrimSpace(text), err}
	}()
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case got := <-typed:
		return got.text, got.err
	}
}

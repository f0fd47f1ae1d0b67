package cmd

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/Masterminds/semver/v3"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/redact"
	"github.com/drover-io/drover/pkg/operate/inspect"
	"github.com/drover-io/drover/pkg/operate/preview"
)

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
func (o *restoreOptions) brief(ctx context.Context, cluster string, asks order) (briefing, error) {
	b := briefing{asks: asks}
	config, err := o.restConfig()
	if err != nil {
		return b, err
	}
	b.management = managementText(config.Host, o.context)
	api, stop, err := o.api()
	if err != nil {
		return b, err
	}
	defer stop()
	if b.scene, err = api.survey(orDefault(o.namespace), cluster); err != nil {
		return b, err
	}
	if _, b.notes, err = b.scene.place(asks); err != nil {
		return b, err
	}
	if err := checkVersion(asks.kubernetesVersion, b.scene.cluster.Spec.KubernetesVersion); err != nil {
		return b, err
	}
	if err := o.find(ctx, &b); err != nil || o.dryRun {
		return b, err // --dry-run reports failures itself
	}
	report, err := o.foresee(ctx, b.scene, asks)
	notes, err := foreseen(report, err, asks)
	b.notes = append(b.notes, notes...)
	return b, err
}

// find looks up the snapshot. It refuses a snapshot that cannot be restored.
func (o *restoreOptions) find(ctx context.Context, b *briefing) error {
	r, err := o.plainReader(ctx, b.scene.cluster.Namespace)
	if err != nil {
		return err
	}
	defer r.Close()
	name := b.asks.wish.Name
	if b.snapshot, err = r.Snapshot(name); err != nil {
		return err
	}
	if b.snapshot != nil || o.file {
		return restorable(b.snapshot, b.scene, o.file)
	}
	known, err := r.Snapshots(b.scene.cluster.Name)
	return unlisted(known, err, b.scene, name)
}

// stays verifies that the snapshot has not changed since it was shown to the user. Without its object, the name would
// count as the name of a file.
func (o *restoreOptions) stays(ctx context.Context, b briefing) error {
	shown := b.snapshot
	if err := o.find(ctx, &b); err != nil {
		return err
	}
	if !equality.Semantic.DeepEqual(shown, b.snapshot) {
		return fmt.Errorf("snapshot %s is not what was shown any more; nothing was asked for", b.asks.wish.Name)
	}
	return nil
}

// foreseen returns the notes of a restore's preview. It refuses a restore that would fail at once. With a version it
// also refuses a restore without a preview.
func foreseen(report preview.Report, err error, asks order) ([]string, error) {
	problem := printable(report.OperationProblem(fieldPath(asks.kind)))
	switch {
	case err != nil && asks.kubernetesVersion != "":
		return nil, fmt.Errorf("it cannot be said whether the restore would fail, and --kubernetes-version would stay in the spec: nothing was asked for; leave it out to ask all the same: %w", err)
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
	if i := slices.IndexFunc(known.Snapshots, func(k inspect.Snapshot) bool { return k.File == name }); unread == nil && i >= 0 {
		hint = "that is the name of a file, and the ETCDSnapshot of it is " + known.Snapshots[i].Name
	}
	return fmt.Errorf("there is no ETCDSnapshot %s in namespace %s, and nothing was asked for; drover snapshot list %s -n %s lists those that are there; %s",
		name, s.cluster.Namespace, s.cluster.Name, s.cluster.Namespace, hint)
}

// restorable refuses a snapshot that cannot be restored, whatever the cluster's machines are.
func restorable(found *inspect.Snapshot, s scene, isFile bool) error {
	switch {
	case found == nil:
		return nil
	case isFile:
		return fmt.Errorf("there is an ETCDSnapshot %s, and by that name it would be restored: leave out --file", found.Name)
	case found.Cluster != "" && found.Cluster != s.cluster.Name:
		return fmt.Errorf("snapshot %s is of cluster %s, not of %s; drover snapshot list %s -n %s lists those that are",
			found.Name, printable(found.Cluster), s.cluster.Name, s.cluster.Name, s.cluster.Namespace)
	case found.Failed():
		return fmt.Errorf("snapshot %s was not taken: %s; drover snapshot list %s -n %s lists others",
			found.Name, strings.Join(strings.Fields(printable(found.Message)), " "), s.cluster.Name, s.cluster.Namespace)
	}
	return nil
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
		return fmt.Errorf("--kubernetes-version: %q must be v and a semantic version, for example v1.36.2+rke2r1 or v1.36.2+k3s1", version)
	}
	is := distro.RuntimeOf(version)
	if !strings.HasPrefix(parsed.Metadata(), is.Command()) {
		return fmt.Errorf("--kubernetes-version: %q must name a distribution behind +, for example v1.36.2+rke2r1 or v1.36.2+k3s1", version)
	}
	if was := distro.RuntimeOf(now); now != "" && was != is {
		return fmt.Errorf("--kubernetes-version: %q is a version of %s, and the cluster is one of %s", version, is, was)
	}
	return nil
}

// print writes the effects of a restore.
func (b briefing) print(out io.Writer, now time.Time) {
	s, asks, found := b.scene, b.asks, b.snapshot
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	row(w, "Management:", b.management)
	row(w, "Cluster:", s.name())
	then := ""
	if found == nil {
		row(w, "Snapshot:", asks.wish.Name+", which is no ETCDSnapshot of namespace "+s.cluster.Namespace+": --file says that it is the name of a file")
		row(w, "Of cluster:", orUnknown(""))
		row(w, "Taken:", orUnknown(""))
		row(w, "Kept by:", "the only machine with etcd, in server/db/snapshots; with more than one machine the restore fails, and stops nothing")
	} else {
		then = found.KubernetesVersion
		row(w, "Snapshot:", found.Name)
		if found.Cluster == "" {
			row(w, "Of cluster:", orUnknown(""))
		}
		row(w, "Taken:", takenText(*found, now))
		row(w, "Kept by:", found.Place())
	}
	is := s.cluster.Spec.KubernetesVersion
	row(w, "Version then:", orUnknown(then))
	row(w, "Version now:", orUnknown(is))
	row(w, "Version after:", versionAfter(then, is, asks.kubernetesVersion))
	for _, note := range b.notes {
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

// takenText describes when a snapshot was taken.
func takenText(s inspect.Snapshot, now time.Time) string {
	if s.TakenAt == nil {
		return "not known"
	}
	return s.TakenAt.UTC().Format(time.RFC3339) + ", " + ageText(s, now) + " ago"
}

// versionAfter describes the version after a restore, and how to get the snapshot's version.
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

// managementText describes a management cluster: the address of its API server, and the context if the user named one.
func managementText(host, context string) string {
	if context == "" {
		return redact.Address(host)
	}
	return redact.Address(host) + ", context " + context
}

package restore

import (
	"cmp"
	"time"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/operate/inspect"
	"github.com/drover-io/drover/pkg/operate/operation"
	"github.com/drover-io/drover/pkg/operate/preview"
)

// Consequence is the effect of every restore.
const Consequence = "Everything that was written to the cluster's API since the snapshot is given up. All machines " +
	"are stopped at once."

// Briefing is what the user reads before a restore is requested.
type Briefing struct {
	Scene operation.Scene
	Order operation.Order
	// Snapshot is nil for a file.
	Snapshot *inspect.Snapshot
	// Object is the snapshot whose configuration goes back, nil if none does. Restored are the fields.
	Object   *rkev1.ETCDSnapshot
	Restored []preview.Restored
	// Report is the preview of the request. It is empty if Unforeseen says why there is none.
	Report     preview.Report
	Unforeseen error
}

// Words are texts that depend on where the user reads the briefing.
type Words struct {
	// File follows the name of a file that has no ETCDSnapshot.
	File string
	// Version follows the version that the request sets. Config follows the version that goes back.
	Version, Config string
	// Offer follows a version that differs from the snapshot's. It says how to get the latter.
	Offer string
}

// Line is a fact with its label.
type Line struct {
	Label string `json:"label"`
	Text  string `json:"text"`
}

// Lines returns the facts about the snapshot and the cluster, without the fields that go back.
func (b Briefing) Lines(now time.Time, words Words) []Line {
	cluster, name := b.Scene.Cluster, b.Order.Wish.Name
	found := inspect.Snapshot{
		Name: name + ", which is no ETCDSnapshot of namespace " + cluster.Namespace + words.File}
	place := "the only machine with etcd, in server/db/snapshots; with more than one machine the restore fails, and " +
		"stops nothing"
	if b.Snapshot != nil {
		found, place = *b.Snapshot, b.Snapshot.Place()
	}
	lines := []Line{{"Cluster", b.Scene.Name()}, {"Snapshot", found.Name}}
	if found.Cluster == "" {
		lines = append(lines, Line{"Of cluster", orUnknown("")})
	}
	is := cluster.Spec.KubernetesVersion
	return append(lines,
		Line{"Taken", takenText(found, now)},
		Line{"Kept by", place},
		Line{"Version then", orUnknown(found.KubernetesVersion)},
		Line{"Version now", orUnknown(is)},
		Line{"Version after", versionAfter(found.KubernetesVersion, is, b.Order, words)},
	)
}

func orUnknown(text string) string { return cmp.Or(text, "not known") }

// takenText describes when a snapshot was taken.
func takenText(s inspect.Snapshot, now time.Time) string {
	if s.TakenAt == nil {
		return orUnknown("")
	}
	return s.TakenAt.UTC().Format(time.RFC3339) + ", " + s.Age(now) + " ago"
}

// versionAfter describes the version after a restore, and how to get the snapshot's version.
func versionAfter(then, now string, o operation.Order, words Words) string {
	switch {
	case o.KubernetesVersion != "":
		return o.KubernetesVersion + words.Version
	case o.Wish.RestoreRKEConfig != "":
		return then + words.Config
	case then != "" && then != now:
		return orUnknown(now) + words.Offer
	}
	return orUnknown(now)
}

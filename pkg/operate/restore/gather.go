package restore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/restoredspec"
	"github.com/drover-io/drover/pkg/operate/inspect"
	"github.com/drover-io/drover/pkg/operate/operation"
	"github.com/drover-io/drover/pkg/operate/preview"
	"github.com/drover-io/drover/pkg/operate/table"
)

// Gatherer reads with the permissions of a user.
type Gatherer struct {
	// Plain opens a Reader. Every call returns a new one, because a Reader remembers what it has read.
	Plain func() (*inspect.Reader, error)
	// Full opens a Reader that knows the release data, for the preview. Nil means that there is no preview.
	Full func() (*inspect.Reader, error)
}

// AbsentError says that no ETCDSnapshot has a name.
type AbsentError struct {
	Namespace, Name string
	// Instead is the ETCDSnapshot whose file has the name, empty if there is none.
	Instead string
}

// Error implements error.
func (e *AbsentError) Error() string {
	text := fmt.Sprintf("there is no ETCDSnapshot %s in namespace %s", e.Name, e.Namespace)
	if e.Instead != "" {
		text += "; that is the name of a file, and the ETCDSnapshot of it is " + e.Instead
	}
	return text
}

// Find looks up the snapshot. It returns a snapshot together with a Refusal if the snapshot cannot be restored,
// whatever the machines are. A name without an ETCDSnapshot is an AbsentError: it would count as the name of a file,
// and a cluster with one etcd machine would be stopped for it.
func (g Gatherer) Find(ctx context.Context, s operation.Scene, name string) (*inspect.Snapshot, error) {
	r, err := g.Plain()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	found, err := r.Snapshot(name)
	switch {
	case err != nil:
		return nil, err
	case found == nil:
		known, unread := r.Snapshots(ctx, s.Cluster.Name)
		absent := &AbsentError{Namespace: s.Cluster.Namespace, Name: name}
		hasFile := func(k inspect.Snapshot) bool { return k.File == name }
		if i := slices.IndexFunc(known.Snapshots, hasFile); unread == nil && i >= 0 {
			absent.Instead = known.Snapshots[i].Name
		}
		return nil, absent
	}
	if refusal := refuse(s, found); refusal != nil {
		return found, refusal
	}
	return found, nil
}

// refuse refuses a snapshot of another cluster, and one that failed.
func refuse(s operation.Scene, found *inspect.Snapshot) *operation.Refusal {
	lists := fmt.Sprintf("; drover snapshot list %s -n %s lists ", s.Cluster.Name, s.Cluster.Namespace)
	switch {
	case found.Cluster != "" && found.Cluster != s.Cluster.Name:
		return &operation.Refusal{Why: fmt.Sprintf("snapshot %s is of cluster %s, not of %s", found.Name,
			table.Printable(found.Cluster), s.Cluster.Name), Advice: lists + "those that are"}
	case found.Failed():
		why := strings.Join(strings.Fields(table.Printable(found.Message)), " ")
		return &operation.Refusal{Why: fmt.Sprintf("snapshot %s was not taken: %s", found.Name, why),
			Advice: lists + "others"}
	}
	return nil
}

// Configuration returns what a restore puts back into a Cluster, and the snapshot that contains it. It refuses a
// snapshot whose configuration the server would refuse.
func (g Gatherer) Configuration(s operation.Scene, o operation.Order) (restoredspec.Result, *rkev1.ETCDSnapshot,
	error) {
	patch, err := o.Patch(s.Cluster, o.Wish)
	if err != nil {
		return restoredspec.Result{}, nil, err
	}
	edited, err := operation.Patched(s.Cluster, patch)
	if err != nil {
		return restoredspec.Result{}, nil, err
	}
	r, err := g.Plain()
	if err != nil {
		return restoredspec.Result{}, nil, err
	}
	defer r.Close()
	return r.Restored(edited)
}

// Brief gathers the rest of the briefing. An error means that the configuration of the snapshot cannot go back. A
// preview that fails is in Unforeseen.
func (g Gatherer) Brief(s operation.Scene, o operation.Order, snapshot *inspect.Snapshot) (Briefing, error) {
	b := Briefing{Scene: s, Order: o, Snapshot: snapshot}
	if o.Wish.RestoreRKEConfig != "" {
		result, object, err := g.Configuration(s, o)
		if err != nil {
			return b, err
		}
		b.Object, b.Restored = object, inspect.ShownChanges(result.Changes)
	}
	if g.Full != nil {
		b.Report, b.Unforeseen = g.foresee(s, o)
	}
	return b, nil
}

func (g Gatherer) foresee(s operation.Scene, o operation.Order) (preview.Report, error) {
	r, err := g.Full()
	if err != nil {
		return preview.Report{}, err
	}
	defer r.Close()
	return r.PreviewRequest(s, o)
}

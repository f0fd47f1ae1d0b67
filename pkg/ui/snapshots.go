package ui

import (
	"cmp"
	"errors"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/operate/inspect"
	"github.com/drover-io/drover/pkg/operate/operation"
	"github.com/drover-io/drover/pkg/operate/preview"
	"github.com/drover-io/drover/pkg/operate/restore"
)

// snapshotsBody are the known etcd snapshots of a cluster, newest first.
type snapshotsBody struct {
	Items []snapshotBody `json:"items"`
	Notes []string       `json:"notes,omitempty"`
}

// snapshotBody is an ETCDSnapshot.
type snapshotBody struct {
	Name string `json:"name"`
	// File is the file's name. For S3 it is the last part of the object's key.
	File    string       `json:"file,omitempty"`
	Created *metav1.Time `json:"created,omitempty"`
	Place   string       `json:"place"`
	Version string       `json:"version,omitempty"`
	// Size in bytes.
	Size int64 `json:"size,omitempty"`
	// State is Successful or Failed, or Unknown for an object that a user wrote.
	State   string `json:"state"`
	Message string `json:"message,omitempty"`
	// HasConfig is true if a restore can put the cluster's configuration back.
	HasConfig bool `json:"hasConfig"`
}

// briefingBody is what a user reads before a restore is requested.
type briefingBody struct {
	Lines []restore.Line `json:"lines"`
	// Restored are the fields of the Cluster that go back, without secrets.
	Restored []preview.Restored `json:"restored,omitempty"`
	// Refused says why this restore is impossible.
	Refused string `json:"refused,omitempty"`
	// Generation is one that no earlier request had. It is 0 if the restore is impossible in any case.
	Generation int64 `json:"generation,omitempty"`
}

func (u *ui) getSnapshots(w http.ResponseWriter, r *http.Request, c *caller) error {
	reader, err := u.reader(r, c)
	if err != nil {
		return err
	}
	defer reader.Close()
	found, err := reader.Snapshots(r.Context(), r.PathValue("name"))
	if err != nil {
		return err
	}
	body := snapshotsBody{Items: []snapshotBody{}}
	for _, s := range found.Snapshots {
		body.Items = append(body.Items, snapshotBody{s.Name, s.File, s.TakenAt, s.Place(), s.KubernetesVersion, s.Size,
			stateOf(s), s.Message, s.HasConfig})
	}
	if len(body.Items) == 0 {
		body.Notes = []string{"Drover knows no snapshot of the cluster. It looks for new ones once a minute."}
	}
	writeJSON(w, http.StatusOK, body)
	return nil
}

func stateOf(s inspect.Snapshot) string {
	if s.Status == "" {
		return "Unknown"
	}
	return strings.ToUpper(s.Status[:1]) + s.Status[1:]
}

// pageWords are the texts of a briefing that name parts of the page.
var pageWords = restore.Words{
	Config: ", which the restore puts back",
	Offer:  "; restore the Kubernetes version, too, to go back to that of the snapshot",
}

func (u *ui) getBriefing(w http.ResponseWriter, r *http.Request, c *caller) error {
	mode := rkev1.RestoreMode(cmp.Or(r.URL.Query().Get("config"), string(rkev1.RestoreModeNone)))
	order := operation.Order{Kind: planner.RestoreOperation, Wish: operation.Wish{Name: r.PathValue("snapshot")},
		ReplacesRunning: true}
	switch mode {
	case rkev1.RestoreModeNone:
	case rkev1.RestoreModeKubernetesVersion, rkev1.RestoreModeAll:
		order.Wish.RestoreRKEConfig = mode
	default:
		return invalid("parameter config must be none, kubernetesVersion or all")
	}
	reader, err := u.reader(r, c)
	if err != nil {
		return err
	}
	scene, err := reader.Scene(r.PathValue("name"))
	reader.Close()
	if err != nil {
		return err
	}
	open := func() (*inspect.Reader, error) { return u.reader(r, c) }
	g := restore.Gatherer{Plain: open, Full: open}
	snapshot, err := g.Find(r.Context(), scene, order.Wish.Name)
	if absent, ok := errors.AsType[*restore.AbsentError](err); ok {
		return notFound(absent.Error())
	}
	if snapshot == nil {
		return err
	}
	body, err := brief(g, scene, order, snapshot, err)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, body)
	return nil
}

// brief gathers the briefing. bad is why the snapshot cannot be restored, nil if it can.
func brief(g restore.Gatherer, s operation.Scene, o operation.Order, snapshot *inspect.Snapshot,
	bad error) (briefingBody, error) {
	b := restore.Briefing{Scene: s, Order: o, Snapshot: snapshot}
	asked, notes, err := s.Place(o)
	body := briefingBody{Generation: asked.Generation}
	if err = cmp.Or(bad, err); err == nil {
		b, err = g.Brief(s, o, snapshot)
	}
	refused, note, fatal := judge(b, err)
	if fatal != nil {
		return body, fatal
	}
	body.Refused = refused
	if note != "" {
		notes = append(notes, note)
	}
	body.Lines, body.Restored = b.Lines(time.Now(), pageWords), b.Restored
	if o.Wish.RestoreRKEConfig != "" && err == nil && len(b.Restored) == 0 {
		body.Lines = append(body.Lines, restore.Line{Label: "Goes back",
			Text: "nothing: the spec has what the snapshot contains"})
	}
	if len(b.Restored) > 0 {
		notes = append(notes, "with GitOps, commit the fields that go back, or the tool sets them back")
	}
	for _, note := range notes {
		body.Lines = append(body.Lines, restore.Line{Label: "Note", Text: note})
	}
	body.Lines = append(body.Lines, restore.Line{Label: "Effect", Text: restore.Consequence})
	return body, nil
}

// judge returns why a restore is impossible, or a note about a preview that is impossible. err is what gathering the
// briefing returned. A read that failed ends the request.
func judge(b restore.Briefing, err error) (refused, note string, fatal error) {
	if refusal, ok := errors.AsType[*operation.Refusal](err); ok {
		return refusal.Why, "", nil
	}
	if err != nil && isStatement(err) {
		return sentence(err), "", nil
	}
	unknown := b.Unforeseen
	if err != nil || apierrors.IsUnauthorized(unknown) || lost(unknown) != nil {
		return "", "", cmp.Or(err, unknown)
	}
	if unknown != nil {
		return "", "it is not known whether the restore would fail at once: " + sentence(unknown), nil
	}
	if problem := b.Report.OperationProblem(operation.FieldPath(b.Order.Kind)); problem != "" {
		return "the " + b.Order.Kind.Title + " would fail: " + problem, "", nil
	}
	return "", "", nil
}

package cmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/pkg/operate/inspect"
)

// wish is a request for an operation. Each kind uses some of its fields. Their names are equal in spec, status and
// records.
type wish struct {
	Generation       int64             `json:"generation,omitempty"`
	Name             string            `json:"name,omitempty"`
	RestoreRKEConfig rkev1.RestoreMode `json:"restoreRKEConfig,omitempty"`
	Services         []string          `json:"services,omitempty"`
}

// order is what a command requests.
type order struct {
	kind planner.OperationKind
	// wish has no generation yet.
	wish wish
	// kubernetesVersion is the new spec.kubernetesVersion. Empty keeps it unchanged.
	kubernetesVersion string
	// restored is the snapshot whose configuration goes back with the restore, nil if none does.
	restored *rkev1.ETCDSnapshot
	// replacesRunning: a new request replaces a running operation of this kind.
	replacesRunning bool
	// confirmed is the state that the user has confirmed, nil without confirmation.
	confirmed *scene
}

// facts are what a user sees of a cluster before a confirmation.
func (s scene) facts(kind planner.OperationKind) string {
	record := s.record(kind)
	return fmt.Sprintln(s.cluster.UID, s.cluster.Spec.KubernetesVersion, wishIn(s.cluster.Spec.RKEConfig, kind.Field),
		record.Request, record.Attempt, record.State)
}

// scene is the state that a request depends on.
type scene struct {
	cluster *provv1.Cluster
	// controlPlane is nil if there is none. Then obstacle refuses every request.
	controlPlane *rkev1.RKEControlPlane
}

func (s scene) name() string { return s.cluster.Namespace + "/" + s.cluster.Name }

// look is the command that shows the progress of a cluster.
func (s scene) look() string {
	return fmt.Sprintf("drover explain %s -n %s", s.cluster.Name, s.cluster.Namespace)
}

// wishIn returns the request in a field of an object, nil if there is none.
func wishIn(object any, field string) *wish {
	var fields map[string]json.RawMessage
	var found *wish
	data, err := json.Marshal(object)
	if err == nil {
		err = json.Unmarshal(data, &fields)
	}
	if err != nil || fields[field] == nil || json.Unmarshal(fields[field], &found) != nil {
		return nil
	}
	return found
}

// record returns the record of a kind of operation, with an empty state if it never ran.
func (s scene) record(kind planner.OperationKind) rkev1.OperationRecord {
	for _, record := range s.controlPlane.Status.Operations {
		if record.Name == kind.Record {
			return record
		}
	}
	return rkev1.OperationRecord{Name: kind.Record}
}

// requested returns the request of the last start, nil if the operation never ran.
func requested(record rkev1.OperationRecord) *wish {
	var found *wish
	if record.Request == "" || json.Unmarshal([]byte(record.Request), &found) != nil {
		return nil
	}
	return found
}

// begun returns the known started requests of a kind.
func (s scene) begun(kind planner.OperationKind) []*wish {
	status := &s.controlPlane.Status
	found := []*wish{wishIn(status, kind.Field), requested(s.record(kind))}
	if kind == planner.CertificatesOperation {
		found = append(found, &wish{Generation: status.CertificateRotationGeneration})
	}
	return slices.DeleteFunc(found, func(w *wish) bool { return w == nil })
}

// asked returns the current requests of a kind: in the user's spec, and in the planner's copy of it.
func (s scene) asked(kind planner.OperationKind) []*wish {
	found := []*wish{wishIn(s.cluster.Spec.RKEConfig, kind.Field), wishIn(s.controlPlane.Spec, kind.Field)}
	return slices.DeleteFunc(found, func(w *wish) bool { return w == nil })
}

// hasBegun reports whether a request of a kind was started.
func (s scene) hasBegun(kind planner.OperationKind, w *wish) bool {
	isSame := func(b *wish) bool { return b.Generation == w.Generation && b.Name == w.Name }
	return slices.ContainsFunc(s.begun(kind), isSame)
}

// nextGeneration returns a generation above those of all current and started requests of the kind.
func (s scene) nextGeneration(kind planner.OperationKind) int64 {
	last := int64(0)
	for _, w := range slices.Concat(s.begun(kind), s.asked(kind)) {
		last = max(last, w.Generation)
	}
	return last + 1
}

// pending returns a request of a kind that has not begun, nil if there is none.
func (s scene) pending(kind planner.OperationKind) *wish {
	for _, w := range s.asked(kind) {
		isNone := kind == planner.KeysOperation && w.Generation <= 0
		if !isNone && !s.hasBegun(kind, w) {
			return w
		}
	}
	return nil
}

// obstacle says why no Drover would start a request. It is empty if one would.
func (s scene) obstacle() string {
	name, released := s.name(), s.cluster.Annotations[rkev1.ReleasedByAnnotation]
	managed := s.cluster.Annotations[rkev1.InstanceAnnotation] != ""
	switch {
	case s.cluster.DeletionTimestamp != nil:
		return fmt.Sprintf("cluster %s is being deleted: no new operation begins", name)
	case s.cluster.Spec.RKEConfig == nil:
		return fmt.Sprintf(
			"cluster %s has no spec.rkeConfig: Drover did not provision it, and runs no operations on it", name)
	case !managed && released != "":
		return fmt.Sprintf("instance %s has released cluster %s: no Drover starts a request until it is adopted; "+
			"drover adopt %s shows what that changes",
			released, name, s.cluster.Name)
	case !managed && s.controlPlane != nil:
		return fmt.Sprintf("no Drover manages cluster %s: no Drover starts a request until it is adopted; "+
			"drover adopt %s shows what that changes", name, s.cluster.Name)
	case s.controlPlane == nil:
		return fmt.Sprintf("cluster %s has no control plane yet; %s says what it waits for", name, s.look())
	}
	return ""
}

// place decides the content and the notes of a request. It returns an error if the request would do harm or nothing.
func (s scene) place(o order) (wish, []string, error) {
	if obstacle := s.obstacle(); obstacle != "" {
		return wish{}, nil, errors.New(obstacle)
	}
	if o.confirmed != nil && (o.confirmed.facts(o.kind) != s.facts(o.kind) ||
		o.restored != nil && o.confirmed.cluster.Generation != s.cluster.Generation) {
		return wish{}, nil,
			fmt.Errorf("cluster %s or its last %s has changed since the question: nothing was asked for; "+
				"run the command again", s.name(), o.kind.Title)
	}
	record := s.record(o.kind)
	if record.State == rkev1.OperationStateRunning && !o.replacesRunning {
		return wish{}, nil,
			fmt.Errorf("the %s of cluster %s runs already, at generation %d: ask again when it has ended, which %s "+
				"shows, or take that request back: remove %s",
				o.kind.Title, s.name(), generationOf(requested(record)), s.look(), fieldPath(o.kind))
	}
	if rival := s.rival(o); rival != "" {
		return wish{}, nil, errors.New(rival)
	}
	if runtime := distro.RuntimeOf(s.cluster.Spec.KubernetesVersion); len(o.wish.Services) > 0 {
		if unknown := render.UnknownServices(runtime, o.wish.Services); len(unknown) > 0 {
			return wish{}, nil, fmt.Errorf("--service: cluster %s is one of %s, which does not have %s", s.name(),
				runtime, strings.Join(unknown, ", "))
		}
	}
	asked := o.wish
	asked.Generation = s.nextGeneration(o.kind)
	if asked.Generation <= 0 { // an earlier request had the largest number
		return wish{}, nil, fmt.Errorf("cluster %s had a request with the largest generation: set %s by hand, "+
			"with another generation than all earlier requests", s.name(), fieldPath(o.kind))
	}
	return asked, s.notes(o), nil
}

// rival returns an error text if a restore with another version would have to wait for another operation. The version
// is in the spec at once, and a live cluster could install it before the restore begins. A restore of stopped machines
// does not wait.
func (s scene) rival(o order) string {
	if o.kubernetesVersion == "" || s.record(o.kind).Stopped {
		return ""
	}
	for _, other := range planner.OperationKinds() {
		switch waits := s.pending(other); {
		case other == o.kind:
		case s.record(other).State == rkev1.OperationStateRunning:
			return fmt.Sprintf(
				"--kubernetes-version: the %s of cluster %s runs, and a live cluster could get the version when it "+
					"has ended: ask again then, which %s shows",
				other.Title, s.name(), s.look())
		case waits != nil:
			return fmt.Sprintf(
				"--kubernetes-version: the %s of cluster %s waits to begin, with generation %d, and a live cluster "+
					"could get the version before the restore: "+
					"ask again when it has ended, which %s shows, or take that request back: remove %s", other.Title,
				s.name(), waits.Generation, s.look(), fieldPath(other))
		}
	}
	return ""
}

// notes describe what else the user must know about the request.
func (s scene) notes(o order) []string {
	var notes []string
	record, was := s.record(o.kind), wishIn(s.cluster.Spec.RKEConfig, o.kind.Field)
	switch {
	case record.State == rkev1.OperationStateRunning:
		notes = append(notes, fmt.Sprintf("the running %s, at generation %d, stops at once, "+
			"and the new one starts from the beginning", o.kind.Title, generationOf(requested(record))))
	case was != nil && !s.hasBegun(o.kind, was):
		notes = append(notes, fmt.Sprintf("the request with generation %d has not begun, and this one takes its place",
			was.Generation))
	}
	for _, other := range planner.OperationKinds() {
		if other != o.kind && s.record(other).State == rkev1.OperationStateRunning && !record.Stopped {
			notes = append(notes, fmt.Sprintf("it begins when the running %s has ended", other.Title))
		}
	}
	return notes
}

func generationOf(w *wish) int64 {
	if w == nil {
		return 0
	}
	return w.Generation
}

// fieldPath is the field of a Cluster that requests an operation.
func fieldPath(kind planner.OperationKind) string { return "spec.rkeConfig." + kind.Field }

// patch returns a merge patch that writes the request to exactly this version of the Cluster. It replaces the former
// value of the field.
func (o order) patch(cluster *provv1.Cluster, asked wish) ([]byte, error) {
	field := map[string]any{"generation": asked.Generation}
	switch o.kind {
	case planner.RestoreOperation:
		field["name"], field["restoreRKEConfig"] = asked.Name, nil
		if asked.RestoreRKEConfig != "" {
			field["restoreRKEConfig"] = asked.RestoreRKEConfig
		}
	case planner.CertificatesOperation:
		field["services"] = asked.Services // null without services
	}
	spec := map[string]any{"rkeConfig": map[string]any{o.kind.Field: field}}
	if o.kubernetesVersion != "" {
		spec["kubernetesVersion"] = o.kubernetesVersion
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": cluster.ResourceVersion},
		"spec": spec})
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	return data, nil
}

// patched returns the Cluster after a merge patch.
func patched(cluster *provv1.Cluster, patch []byte) (*provv1.Cluster, error) {
	out := &provv1.Cluster{}
	data, err := json.Marshal(cluster)
	if err == nil {
		data, err = jsonpatch.MergePatch(data, patch)
	}
	if err == nil {
		err = json.Unmarshal(data, out)
	}
	if err != nil {
		return nil, fmt.Errorf("apply the request to the Cluster: %w", err)
	}
	return out, nil
}

// request describes the request for the user.
func (o order) request(s scene, asked wish, notes []string) inspect.Request {
	return inspect.Request{
		Cluster: s.name(), Operation: o.kind.Record, Field: fieldPath(o.kind), Generation: asked.Generation,
		Snapshot: asked.Name, RestoreRKEConfig: string(asked.RestoreRKEConfig),
		Services: asked.Services, KubernetesVersion: o.kubernetesVersion, Notes: notes,
	}
}

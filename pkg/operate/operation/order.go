package operation

import (
	"encoding/json"
	"fmt"
	"strings"

	jsonpatch "github.com/evanphx/json-patch"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// Wish is a request for an operation. Each kind uses some of its fields. Their names are equal in spec, status and
// records.
type Wish struct {
	Generation       int64             `json:"generation,omitempty"`
	Name             string            `json:"name,omitempty"`
	RestoreRKEConfig rkev1.RestoreMode `json:"restoreRKEConfig,omitempty"`
	Services         []string          `json:"services,omitempty"`
}

// Order is what a user requests.
type Order struct {
	Kind planner.OperationKind
	// Wish has no generation yet.
	Wish Wish
	// KubernetesVersion is the new spec.kubernetesVersion. Empty keeps it unchanged.
	KubernetesVersion string
	// Restored is the snapshot whose configuration goes back with the restore, nil if none does.
	Restored *rkev1.ETCDSnapshot
	// ReplacesRunning means that a new request replaces a running operation of this kind.
	ReplacesRunning bool
	// Confirmed is the state that the user has confirmed, nil without confirmation.
	Confirmed *Scene
}

// Part is a part of an Order that a Refusal is about. Empty is the whole Order.
type Part string

// The parts of an Order that can be refused alone.
const (
	OfVersion  Part = "KubernetesVersion"
	OfServices Part = "Services"
)

// Refusal says why a request would do harm or nothing.
type Refusal struct {
	Part Part
	// Why is the reason. Advice follows it, with its punctuation, and helps on a command line.
	Why, Advice string
}

// Error returns the reason and the advice.
func (r *Refusal) Error() string { return r.Why + r.Advice }

// Place decides the content and the notes of a request. It returns a Refusal if the request would do harm or nothing.
func (s Scene) Place(o Order) (Wish, []string, error) {
	for _, refused := range []func(Order) *Refusal{s.obstacle, s.changed, s.runs, s.rival, s.unserved} {
		if why := refused(o); why != nil {
			return Wish{}, nil, why
		}
	}
	asked := o.Wish
	asked.Generation = s.NextGeneration(o.Kind)
	if asked.Generation <= 0 { // an earlier request had the largest number
		return Wish{}, nil, &Refusal{Why: fmt.Sprintf("cluster %s had a request with the largest generation: set %s "+
			"by hand, with another generation than all earlier requests", s.Name(), FieldPath(o.Kind))}
	}
	return asked, s.notes(o), nil
}

// changed refuses a request that the user has confirmed for another state.
func (s Scene) changed(o Order) *Refusal {
	if o.Confirmed == nil || o.Confirmed.facts(o.Kind) == s.facts(o.Kind) &&
		(o.Restored == nil || o.Confirmed.Cluster.Generation == s.Cluster.Generation) {
		return nil
	}
	return &Refusal{Why: fmt.Sprintf("cluster %s or its last %s has changed since the question: nothing was asked for",
		s.Name(), o.Kind.Title), Advice: "; run the command again"}
}

// runs refuses a request while an operation of its kind runs that it does not replace.
func (s Scene) runs(o Order) *Refusal {
	record := s.Record(o.Kind)
	if record.State != rkev1.OperationStateRunning || o.ReplacesRunning {
		return nil
	}
	return &Refusal{Why: fmt.Sprintf("the %s of cluster %s runs already, at generation %d", o.Kind.Title, s.Name(),
		generationOf(Requested(record))), Advice: fmt.Sprintf(": ask again when it has ended, which %s shows, or take "+
		"that request back: remove %s", s.Look(), FieldPath(o.Kind))}
}

// unserved refuses services that the distribution does not have.
func (s Scene) unserved(o Order) *Refusal {
	if len(o.Wish.Services) == 0 {
		return nil
	}
	runtime := distro.RuntimeOf(s.Cluster.Spec.KubernetesVersion)
	unknown := render.UnknownServices(runtime, o.Wish.Services)
	if len(unknown) == 0 {
		return nil
	}
	return &Refusal{Part: OfServices, Why: fmt.Sprintf("cluster %s is one of %s, which does not have %s", s.Name(),
		runtime, strings.Join(unknown, ", "))}
}

// rival refuses a restore with another version that would have to wait for another operation. The version is in the
// spec at once, and a live cluster could install it before the restore begins. A restore of stopped machines does not
// wait.
func (s Scene) rival(o Order) *Refusal {
	if o.KubernetesVersion == "" || s.Record(o.Kind).Stopped {
		return nil
	}
	for _, other := range planner.OperationKinds() {
		switch waits := s.pending(other); {
		case other == o.Kind:
		case s.Record(other).State == rkev1.OperationStateRunning:
			return &Refusal{Part: OfVersion, Why: fmt.Sprintf("the %s of cluster %s runs, and a live cluster could "+
				"get the version when it has ended", other.Title, s.Name()),
				Advice: fmt.Sprintf(": ask again then, which %s shows", s.Look())}
		case waits != nil:
			return &Refusal{Part: OfVersion, Why: fmt.Sprintf("the %s of cluster %s waits to begin, with generation "+
				"%d, and a live cluster could get the version before the restore", other.Title, s.Name(),
				waits.Generation), Advice: fmt.Sprintf(": ask again when it has ended, which %s shows, or take that "+
				"request back: remove %s", s.Look(), FieldPath(other))}
		}
	}
	return nil
}

// notes describe what else the user must know about the request.
func (s Scene) notes(o Order) []string {
	var notes []string
	record, was := s.Record(o.Kind), WishIn(s.Cluster.Spec.RKEConfig, o.Kind.Field)
	switch {
	case record.State == rkev1.OperationStateRunning:
		notes = append(notes, fmt.Sprintf("the running %s, at generation %d, stops at once, "+
			"and the new one starts from the beginning", o.Kind.Title, generationOf(Requested(record))))
	case was != nil && !s.hasBegun(o.Kind, was):
		notes = append(notes, fmt.Sprintf("the request with generation %d has not begun, and this one takes its place",
			was.Generation))
	}
	for _, other := range planner.OperationKinds() {
		if other != o.Kind && s.Record(other).State == rkev1.OperationStateRunning && !record.Stopped {
			notes = append(notes, fmt.Sprintf("it begins when the running %s has ended", other.Title))
		}
	}
	return notes
}

func generationOf(w *Wish) int64 {
	if w == nil {
		return 0
	}
	return w.Generation
}

// FieldPath is the field of a Cluster that requests an operation.
func FieldPath(kind planner.OperationKind) string { return "spec.rkeConfig." + kind.Field }

// Patch returns a merge patch that writes the request to exactly this version of the Cluster. It replaces the former
// value of the field.
func (o Order) Patch(cluster *provv1.Cluster, asked Wish) ([]byte, error) {
	field := map[string]any{"generation": asked.Generation}
	switch o.Kind {
	case planner.RestoreOperation:
		field["name"], field["restoreRKEConfig"] = asked.Name, nil
		if asked.RestoreRKEConfig != "" {
			field["restoreRKEConfig"] = asked.RestoreRKEConfig
		}
	case planner.CertificatesOperation:
		field["services"] = asked.Services // null without services
	}
	spec := map[string]any{"rkeConfig": map[string]any{o.Kind.Field: field}}
	if o.KubernetesVersion != "" {
		spec["kubernetesVersion"] = o.KubernetesVersion
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": cluster.ResourceVersion},
		"spec": spec})
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	return data, nil
}

// Patched returns the Cluster after a merge patch.
func Patched(cluster *provv1.Cluster, patch []byte) (*provv1.Cluster, error) {
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

// Edited returns the Cluster with the request, for a preview.
func (s Scene) Edited(o Order) (*provv1.Cluster, error) {
	asked, _, err := s.Place(o)
	if err != nil {
		return nil, err
	}
	patch, err := o.Patch(s.Cluster, asked)
	if err != nil {
		return nil, err
	}
	return Patched(s.Cluster, patch)
}

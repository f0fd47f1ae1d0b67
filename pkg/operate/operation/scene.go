package operation

import (
	"encoding/json"
	"fmt"
	"slices"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner"
)

// Scene is the state that a request depends on.
type Scene struct {
	Cluster *provv1.Cluster
	// ControlPlane is nil if there is none. Then Place refuses every request.
	ControlPlane *rkev1.RKEControlPlane
}

// Name is the cluster's namespace and name, as NAMESPACE/NAME.
func (s Scene) Name() string { return s.Cluster.Namespace + "/" + s.Cluster.Name }

// Look is the command that shows the progress of a cluster.
func (s Scene) Look() string {
	return fmt.Sprintf("drover explain %s -n %s", s.Cluster.Name, s.Cluster.Namespace)
}

// WishIn returns the request in a field of an object, nil if there is none.
func WishIn(object any, field string) *Wish {
	var fields map[string]json.RawMessage
	var found *Wish
	data, err := json.Marshal(object)
	if err == nil {
		err = json.Unmarshal(data, &fields)
	}
	if err != nil || fields[field] == nil || json.Unmarshal(fields[field], &found) != nil {
		return nil
	}
	return found
}

// Record returns the record of a kind of operation, with an empty state if it never ran.
func (s Scene) Record(kind planner.OperationKind) rkev1.OperationRecord {
	for _, record := range s.ControlPlane.Status.Operations {
		if record.Name == kind.Record {
			return record
		}
	}
	return rkev1.OperationRecord{Name: kind.Record}
}

// Requested returns the request of the last start, nil if the operation never ran.
func Requested(record rkev1.OperationRecord) *Wish {
	var found *Wish
	if record.Request == "" || json.Unmarshal([]byte(record.Request), &found) != nil {
		return nil
	}
	return found
}

// begun returns the known started requests of a kind.
func (s Scene) begun(kind planner.OperationKind) []*Wish {
	status := &s.ControlPlane.Status
	found := []*Wish{WishIn(status, kind.Field), Requested(s.Record(kind))}
	if kind == planner.CertificatesOperation {
		found = append(found, &Wish{Generation: status.CertificateRotationGeneration})
	}
	return slices.DeleteFunc(found, func(w *Wish) bool { return w == nil })
}

// asked returns the current requests of a kind: in the user's spec, and in the planner's copy of it.
func (s Scene) asked(kind planner.OperationKind) []*Wish {
	found := []*Wish{WishIn(s.Cluster.Spec.RKEConfig, kind.Field), WishIn(s.ControlPlane.Spec, kind.Field)}
	return slices.DeleteFunc(found, func(w *Wish) bool { return w == nil })
}

// hasBegun reports whether a request of a kind was started.
func (s Scene) hasBegun(kind planner.OperationKind, w *Wish) bool {
	isSame := func(b *Wish) bool { return b.Generation == w.Generation && b.Name == w.Name }
	return slices.ContainsFunc(s.begun(kind), isSame)
}

// NextGeneration returns a generation above those of all current and started requests of the kind.
func (s Scene) NextGeneration(kind planner.OperationKind) int64 {
	last := int64(0)
	for _, w := range slices.Concat(s.begun(kind), s.asked(kind)) {
		last = max(last, w.Generation)
	}
	return last + 1
}

// pending returns a request of a kind that has not begun, nil if there is none.
func (s Scene) pending(kind planner.OperationKind) *Wish {
	for _, w := range s.asked(kind) {
		isNone := kind == planner.KeysOperation && w.Generation <= 0
		if !isNone && !s.hasBegun(kind, w) {
			return w
		}
	}
	return nil
}

// obstacle refuses a request that no Drover would start.
func (s Scene) obstacle(Order) *Refusal {
	name, released := s.Name(), s.Cluster.Annotations[rkev1.ReleasedByAnnotation]
	managed := s.Cluster.Annotations[rkev1.InstanceAnnotation] != ""
	adopt := fmt.Sprintf("; drover adopt %s shows what that changes", s.Cluster.Name)
	switch {
	case s.Cluster.DeletionTimestamp != nil:
		return &Refusal{Why: fmt.Sprintf("cluster %s is being deleted: no new operation begins", name)}
	case s.Cluster.Spec.RKEConfig == nil:
		return &Refusal{Why: fmt.Sprintf(
			"cluster %s has no spec.rkeConfig: Drover did not provision it, and runs no operations on it", name)}
	case !managed && released != "":
		return &Refusal{Why: fmt.Sprintf("instance %s has released cluster %s: no Drover starts a request until it is "+
			"adopted", released, name), Advice: adopt}
	case !managed && s.ControlPlane != nil:
		return &Refusal{Why: fmt.Sprintf("no Drover manages cluster %s: no Drover starts a request until it is adopted",
			name), Advice: adopt}
	case s.ControlPlane == nil:
		return &Refusal{Why: fmt.Sprintf("cluster %s has no control plane yet", name),
			Advice: fmt.Sprintf("; %s says what it waits for", s.Look())}
	}
	return nil
}

// facts are what a user sees of a cluster before a confirmation.
func (s Scene) facts(kind planner.OperationKind) string {
	record := s.Record(kind)
	return fmt.Sprintln(s.Cluster.UID, s.Cluster.Spec.KubernetesVersion, WishIn(s.Cluster.Spec.RKEConfig, kind.Field),
		record.Request, record.Attempt, record.State)
}

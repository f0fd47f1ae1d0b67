package conditions

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// Condition is one condition without its times.
type Condition struct {
	// Type names the condition; the constants are in pkg/apis.
	Type string
	// Status is True, False or Unknown: rkev1.ConditionTrue and so on.
	Status string
	// Reason is one constant word for programs.
	Reason string
	// Message is a sentence for users. It starts with a capital letter, has no full stop at its end, and contains only
	// stable data.
	Message string
}

// Set writes the condition into the list and reports whether anything but the times changed. The times are RFC 3339 in
// UTC, with a resolution of one second (docs/wire/names.md#conditions: tools of Rancher read them so).
func Set(list *[]rkev1.GenericCondition, c Condition, now time.Time) bool {
	stamp := now.UTC().Format(time.RFC3339)
	old := Get(*list, c.Type)
	if old == nil {
		*list = append(*list, rkev1.GenericCondition{
			Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message,
			LastUpdateTime: stamp, LastTransitionTime: stamp,
		})
		return true
	}
	if old.Status == c.Status && old.Reason == c.Reason && old.Message == c.Message {
		return false
	}
	if old.Status != c.Status {
		old.LastTransitionTime = stamp
	}
	old.Status, old.Reason, old.Message, old.LastUpdateTime = c.Status, c.Reason, c.Message, stamp
	return true
}

// SameStatuses reports whether two lists have the same conditions with the same statuses. Reasons, messages and times
// may differ: a program that waits for a status needs none of these. An absent condition is as good as an Unknown one.
func SameStatuses(a, b []rkev1.GenericCondition) bool {
	return includes(a, b) && includes(b, a)
}

// includes reports whether a list has the known statuses of another one.
func includes(list, other []rkev1.GenericCondition) bool {
	return !slices.ContainsFunc(other, func(c rkev1.GenericCondition) bool {
		found := Get(list, c.Type)
		return found == nil && c.Status != rkev1.ConditionUnknown || found != nil && found.Status != c.Status
	})
}

// Get returns the condition of that type, or nil. The pointer refers to the list's own element.
func Get(list []rkev1.GenericCondition, conditionType string) *rkev1.GenericCondition {
	for i := range list {
		if list[i].Type == conditionType {
			return &list[i]
		}
	}
	return nil
}

// Remove removes the condition from the list and reports whether it was there.
func Remove(list *[]rkev1.GenericCondition, conditionType string) bool {
	for i := range *list {
		if (*list)[i].Type == conditionType {
			*list = append((*list)[:i:i], (*list)[i+1:]...)
			return true
		}
	}
	return false
}

// IsTrue reports whether the list has the condition with status True.
func IsTrue(list []rkev1.GenericCondition, conditionType string) bool {
	c := Get(list, conditionType)
	return c != nil && c.Status == rkev1.ConditionTrue
}

// IsFalse reports whether the list has the condition with status False. An absent condition is neither true nor false.
func IsFalse(list []rkev1.GenericCondition, conditionType string) bool {
	c := Get(list, conditionType)
	return c != nil && c.Status == rkev1.ConditionFalse
}

// SetMeta writes the condition into a list of Cluster API's kind and reports whether anything but the times changed.
// The API server rejects such a condition without a reason, so an empty reason becomes the condition's type.
func SetMeta(list *[]metav1.Condition, c Condition, generation int64, now time.Time) bool {
	if c.Reason == "" {
		c.Reason = c.Type
	}
	stamp := metav1.NewTime(now.UTC().Truncate(time.Second))
	old := GetMeta(*list, c.Type)
	if old == nil {
		*list = append(*list, metav1.Condition{
			Type: c.Type, Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message,
			ObservedGeneration: generation, LastTransitionTime: stamp,
		})
		return true
	}
	status := metav1.ConditionStatus(c.Status)
	if old.Status == status && old.Reason == c.Reason && old.Message == c.Message &&
		old.ObservedGeneration == generation {
		return false
	}
	if old.Status != status {
		old.LastTransitionTime = stamp
	}
	old.Status, old.Reason, old.Message, old.ObservedGeneration = status, c.Reason, c.Message, generation
	return true
}

// GetMeta returns the condition of that type, or nil. The pointer refers to the list's own element.
func GetMeta(list []metav1.Condition, conditionType string) *metav1.Condition {
	return meta.FindStatusCondition(list, conditionType)
}

// IsTrueMeta reports whether the list has the condition with status True.
func IsTrueMeta(list []metav1.Condition, conditionType string) bool {
	return meta.IsStatusConditionTrue(list, conditionType)
}

// IsFalseMeta reports whether the list has the condition with status False.
func IsFalseMeta(list []metav1.Condition, conditionType string) bool {
	return meta.IsStatusConditionFalse(list, conditionType)
}

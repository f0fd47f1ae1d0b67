package machineprovision

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/drover-io/drover/pkg/decide/machinejob"
)

// report writes the status if it changed. A released object has none.
func (h *handler) report(obj *unstructured.Unstructured, s machinejob.Snapshot, d machinejob.Decision) error {
	released := slices.ContainsFunc(d.Actions, func(a machinejob.Action) bool {
		return a.Kind == machinejob.ActionRelease
	})
	if released || equality.Semantic.DeepEqual(s.Machine.Status, d.Status) {
		return nil
	}
	raw, err := json.Marshal(d.Status)
	if err != nil {
		return fmt.Errorf("encode status: %w", err)
	}
	var status map[string]any
	if err := json.Unmarshal(raw, &status); err != nil {
		return fmt.Errorf("encode status: %w", err)
	}
	obj.Object["status"] = status
	replaced := obj.GetResourceVersion()
	if _, err := h.Dynamic.UpdateStatus(h.ctx, obj); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("write status of %s %s/%s: %w", obj.GetKind(), obj.GetNamespace(), obj.GetName(), err)
	}
	h.written.Replaced(obj.GetUID(), replaced, h.Now())
	return nil
}

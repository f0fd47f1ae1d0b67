package nodedriver

import (
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/driverschema"
)

// report writes the result once. NodeDriver has no status subresource, so everything is one write.
func (h *handler) report(driver *mgmtv3.NodeDriver, res result) (*mgmtv3.NodeDriver, error) {
	next := driver.DeepCopy()
	now := h.Now()
	set := func(c conditions.Condition) { conditions.Set(&next.Status.Conditions, c, now) }
	// Both conditions mean only that the controller has seen the driver. User interfaces distinguish active drivers by
	// spec.active.
	set(conditions.Condition{Type: mgmtv3.NodeDriverConditionActive, Status: rkev1.ConditionTrue})
	set(conditions.Condition{Type: mgmtv3.NodeDriverConditionInactive, Status: rkev1.ConditionTrue})
	switch {
	case res.failed != "":
		for _, c := range driverschema.FailedInstall(res.failed, "NodeDriver "+driver.Name+": "+res.message) {
			set(c)
		}
	case res.waiting != "":
		set(conditions.Condition{Type: mgmtv3.NodeDriverConditionDownloaded, Status: rkev1.ConditionUnknown,
			Reason: rkev1.ReasonWaiting, Message: "NodeDriver " + driver.Name + ": " + res.waiting})
	case res.installed:
		h.reportInstalled(next, res, set)
	}
	h.reportInsecure(next, res, set)
	if hints := driverschema.UIHints(res.metadata.Aliases); res.failed == "" && hints != "" {
		next.Annotations = withAnnotation(next.Annotations, mgmtv3.UIFieldHintsAnnotation, hints)
	}
	if equality.Semantic.DeepEqual(driver, next) {
		return driver, nil
	}
	updated, err := h.NodeDrivers.Update(next)
	if err != nil {
		return driver, fmt.Errorf("write NodeDriver %s: %w", driver.Name, err)
	}
	return updated, nil
}

// reportInsecure warns about a driver that was installed when Drover required less. Machines keep using it, because
// they must remain removable. The condition exists only for such drivers.
func (h *handler) reportInsecure(next *mgmtv3.NodeDriver, res result, set func(conditions.Condition)) {
	if res.insecure == "" {
		conditions.Remove(&next.Status.Conditions, mgmtv3.NodeDriverConditionVerifiable)
		return
	}
	set(conditions.Condition{Type: mgmtv3.NodeDriverConditionVerifiable, Status: rkev1.ConditionFalse,
		Reason: rkev1.ReasonError, Message: "NodeDriver " + next.Name + ": Drover keeps the driver that it " +
			"installed, and does not install it again: " + res.insecure})
}

func (h *handler) reportInstalled(next *mgmtv3.NodeDriver, res result, set func(conditions.Condition)) {
	set(conditions.Condition{Type: mgmtv3.NodeDriverConditionDownloaded, Status: rkev1.ConditionTrue})
	set(conditions.Condition{Type: mgmtv3.NodeDriverConditionInstalled, Status: rkev1.ConditionTrue})
	next.Spec.DisplayName = res.name
	if driverschema.IsLocal(next.Spec.URL) {
		next.Status.AppliedDockerMachineVersion = h.core.Version
		return
	}
	next.Status.AppliedURL, next.Status.AppliedChecksum = next.Spec.URL, next.Spec.Checksum
	next.Annotations = withAnnotation(next.Annotations, driverschema.DriverSHA256Annotation, res.sha256)
}

func withAnnotation(annotations map[string]string, key, value string) map[string]string {
	out := make(map[string]string, len(annotations)+1)
	maps.Copy(out, annotations)
	out[key] = value
	return out
}

package managedchart

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/outcome"
)

// report writes the status, in one write and only if it changed.
func (h *handler) report(facts *Facts, end error) (*mgmtv3.ManagedChart, error) {
	chart := facts.chart
	status, retry, changed := h.status(facts, end)
	if !changed {
		return chart, retry.Err
	}
	next := chart.DeepCopy()
	next.Status = status
	updated, err := h.ManagedCharts.UpdateStatus(next)
	if apierrors.IsNotFound(err) {
		return chart, nil
	}
	if err != nil {
		return chart, fmt.Errorf("write status of ManagedChart %s/%s: %w", chart.Namespace, chart.Name, err)
	}
	h.written.Wrote(chart, updated, facts.now)
	return updated, retry.Err
}

// status returns the status of the ManagedChart: that of its Bundle, with condition Defined. Without a Bundle the rest
// stays as it was.
func (h *handler) status(facts *Facts, end error) (status mgmtv3.ManagedChartStatus, retry outcome.Retry,
	changed bool) {
	before := facts.chart.Status
	status = *before.DeepCopy()
	if copied := facts.bundleStatus(); copied != nil {
		conditions.Remove(&copied.Conditions, mgmtv3.ManagedChartConditionDefined)
		if defined := conditions.Get(status.Conditions, mgmtv3.ManagedChartConditionDefined); defined != nil {
			copied.Conditions = append(copied.Conditions, *defined)
		}
		status = *copied
	}
	condition, retry := outcome.Conclude(mgmtv3.ManagedChartConditionDefined, end)
	outcome.Record(&status.Conditions, condition, retry, facts.now)
	return status, retry, !equality.Semantic.DeepEqual(before, status)
}

// bundleStatus returns the status of the Bundle, or nil.
func (f *Facts) bundleStatus() *mgmtv3.ManagedChartStatus {
	if f.bundle == nil || f.isForeign() || f.bundle.Object["status"] == nil {
		return nil
	}
	text, err := json.Marshal(f.bundle.Object["status"])
	if err != nil {
		return nil
	}
	var status mgmtv3.ManagedChartStatus
	if json.Unmarshal(text, &status) != nil {
		return nil // a form that this version does not know
	}
	return &status
}

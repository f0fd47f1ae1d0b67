package events

import (
	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// ManagedChartChanged returns the events of a change of a ManagedChart. A failure with another reason is news.
func ManagedChartChanged(before, after *mgmtv3.ManagedChart) []Event {
	l := about(chartKind, after)
	defined := transition{
		ownCondition(before.Status.Conditions, mgmtv3.ManagedChartConditionDefined),
		ownCondition(after.Status.Conditions, mgmtv3.ManagedChartConditionDefined),
	}
	switch {
	case defined.became(rkev1.ConditionFalse):
		l.warning(ReasonChartFailed, defined.is.why())
	case defined.became(rkev1.ConditionTrue):
		l.normal(ReasonChartDefined, "The Bundle matches the spec")
	}
	return l.events
}

package outcome

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
)

// renewAfter is how long the text of a retried failure stays, even if the latest attempt ended with another text.
const renewAfter = time.Minute

// Record writes a condition from Conclude into the list, and reports whether the list changed. A repeated failure
// changes the list at most once a minute, whatever its text. Each write would be an event, which causes the next
// attempt at once, without back-off. A conflict leaves the condition unchanged.
func Record(list *[]rkev1.GenericCondition, c conditions.Condition, retry Retry, now time.Time) bool {
	if apierrors.IsConflict(retry.Err) {
		return false
	}
	if old := conditions.Get(*list, c.Type); old != nil && retry.Err != nil {
		if old.Status == c.Status && old.Reason == c.Reason && recent(old.LastUpdateTime, now) {
			return false
		}
	}
	return conditions.Set(list, c, now)
}

// recent reports whether a condition's time is less than renewAfter ago. An unreadable or future time is not recent.
func recent(stamp string, now time.Time) bool {
	written, err := time.Parse(time.RFC3339, stamp)
	if err != nil {
		return false
	}
	age := now.Sub(written)
	return age >= 0 && age < renewAfter
}

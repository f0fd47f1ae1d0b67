package outcome

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
)

// renewAfter is how long the text of a failure that is tried again stays, even if the latest try ended with another text.
const renewAfter = time.Minute

// Record writes a condition that Conclude made into the list, and reports whether the list changed. A try that fails like
// the one before changes nothing, whatever the two texts are, or else not more than once a minute: the write would be an
// event, which brings the next try at once, past any back-off. A conflict leaves the condition as it is.
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

// recent reports whether a time of a condition is less than renewAfter ago. One that cannot be read, or lies in the
// future, is not.
func recent(stamp string, now time.Time) bool {
	written, err := time.Parse(time.RFC3339, stamp)
	if err != nil {
		return false
	}
	age := now.Sub(written)
	return age >= 0 && age < renewAfter
}

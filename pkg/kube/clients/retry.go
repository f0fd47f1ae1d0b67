package clients

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
)

// RetryOnConflict does something anew when somebody else was quicker, as often as the backoff says, and returns the last error. An error of a time limit is
// returned like any other: retry.RetryOnConflict takes it for the end of its own patience, and returns none.
func RetryOnConflict(backoff wait.Backoff, do func() error) (last error) {
	_ = retry.RetryOnConflict(backoff, func() error {
		if last = do(); apierrors.IsConflict(last) {
			return last
		}
		return nil
	})
	return last
}

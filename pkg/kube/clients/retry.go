package clients

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
)

// RetryOnConflict calls do again after each conflict, up to the limit of backoff, and returns the last error. It
// returns a timeout error like any other. retry.RetryOnConflict mistakes such an error for the end of its own retries,
// and returns nil.
func RetryOnConflict(backoff wait.Backoff, do func() error) (last error) {
	_ = retry.RetryOnConflict(backoff, func() error {
		if last = do(); apierrors.IsConflict(last) {
			return last
		}
		return nil
	})
	return last
}

package clients

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

// Optional takes the answer of a client or a cache: an object that is not there is none, and no error.
func Optional[T runtime.Object](object T, err error) (T, error) {
	var none T
	if apierrors.IsNotFound(err) {
		return none, nil
	}
	if err != nil {
		return none, err
	}
	return object, nil
}

package clients

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

// Optional converts the result of a client or a cache: a NotFound error becomes nil, and so does the object.
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

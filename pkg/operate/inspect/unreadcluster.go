package inspect

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
)

// absentError reports that a Cluster does not exist. It wraps the API server's error.
type absentError struct {
	error
	namespace, name string
}

// Error implements error.
func (e absentError) Error() string {
	return fmt.Sprintf("there is no Cluster %s in namespace %s; -n names another one", e.name, e.namespace)
}

// Unwrap returns the API server's error.
func (e absentError) Unwrap() error { return e.error }

// UnreadCluster says why a Cluster could not be read. isRefusal is true for a definite answer of the API server. A
// repeated read gives the same answer.
func UnreadCluster(err error, namespace, name string) (isRefusal bool, said error) {
	known := IsAbout(err, provv1.SchemeGroupVersion.WithResource("clusters").GroupResource(), name)
	if known && apierrors.IsNotFound(err) {
		return true, absentError{err, namespace, name}
	}
	return known && apierrors.IsForbidden(err), fmt.Errorf("read Cluster %s/%s: %w", namespace, name, err)
}

// IsAbout reports whether an error is the API server's statement about exactly this object. It excludes servers that do
// not know the kind, and errors that client-go creates from a proxy's page.
func IsAbout(err error, resource schema.GroupResource, name string) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || apierrors.IsUnexpectedServerError(err) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Name == name && details.Group == resource.Group &&
		details.Kind == resource.Resource
}

// IsAbsent reports whether the API server says that exactly this object does not exist.
func IsAbsent(err error, resource schema.GroupResource, name string) bool {
	return apierrors.IsNotFound(err) && IsAbout(err, resource, name)
}

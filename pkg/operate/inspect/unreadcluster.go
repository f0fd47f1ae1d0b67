package inspect

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
)

// absentError is what is said of a Cluster that is not there. It wraps what the API server has said.
type absentError struct {
	error
	namespace, name string
}

// Error implements error.
func (e absentError) Error() string {
	return fmt.Sprintf("there is no Cluster %s in namespace %s; -n names another one", e.name, e.namespace)
}

// Unwrap returns what the API server has said.
func (e absentError) Unwrap() error { return e.error }

// UnreadCluster says why a Cluster could not be read. It is a refusal if somebody says so who knows, so that the same answer comes when it is read again.
func UnreadCluster(err error, namespace, name string) (isRefusal bool, said error) {
	known := IsAbout(err, provv1.SchemeGroupVersion.WithResource("clusters").GroupResource(), name)
	if known && apierrors.IsNotFound(err) {
		return true, absentError{err, namespace, name}
	}
	return known && apierrors.IsForbidden(err), fmt.Errorf("read Cluster %s/%s: %w", namespace, name, err)
}

// IsAbout reports whether an error is what a server of Kubernetes says of that very object: not what one says that does not know the kind, nor what client-go makes
// of a page of somebody on the way.
func IsAbout(err error, resource schema.GroupResource, name string) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || apierrors.IsUnexpectedServerError(err) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Name == name && details.Group == resource.Group && details.Kind == resource.Resource
}

// IsAbsent reports whether a server of Kubernetes says of that very object that there is none.
func IsAbsent(err error, resource schema.GroupResource, name string) bool {
	return apierrors.IsNotFound(err) && IsAbout(err, resource, name)
}

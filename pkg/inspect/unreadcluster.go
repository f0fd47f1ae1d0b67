package inspect

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

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
	known := isAbout(err, name)
	if known && apierrors.IsNotFound(err) {
		return true, absentError{err, namespace, name}
	}
	return known && apierrors.IsForbidden(err), fmt.Errorf("read Cluster %s/%s: %w", namespace, name, err)
}

// isAbout reports whether an error is what a server of Kubernetes says of that very Cluster: not what one says that does not know the kind, nor what client-go makes
// of a page of somebody on the way.
func isAbout(err error, cluster string) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || apierrors.IsUnexpectedServerError(err) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Name == cluster && details.Group == provv1.SchemeGroupVersion.Group && details.Kind == "clusters"
}

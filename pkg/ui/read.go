package ui

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/operate/inspect"
)

// isOfAPI reports whether an error is an answer of the API server.
func isOfAPI(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

// kubernetes returns a client with the caller's rights.
func (c *caller) kubernetes() (kubernetes.Interface, error) {
	config := rest.CopyConfig(c.config)
	config.Timeout = callTime
	return kubernetes.NewForConfig(config)
}

// dynamic returns a client with the caller's rights for objects that are not converted to Go types.
func (c *caller) dynamic() (dynamic.Interface, error) {
	config := rest.CopyConfig(c.config)
	config.Timeout = callTime
	return dynamic.NewForConfig(config)
}

// cluster returns the Cluster of the path as it is stored.
func (u *ui) cluster(r *http.Request, c *caller) (*unstructured.Unstructured, error) {
	client, err := c.dynamic()
	if err != nil {
		return nil, err
	}
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	found, err := client.Resource(provv1.SchemeGroupVersion.WithResource("clusters")).Namespace(namespace).Get(
		r.Context(), name, metav1.GetOptions{})
	if err != nil {
		_, err = inspect.UnreadCluster(err, namespace, name)
		return nil, err
	}
	return found, nil
}

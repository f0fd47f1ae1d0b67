package apply

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/operate/edit"
	"github.com/drover-io/drover/pkg/operate/inspect"
)

// clusterResource is the resource of Clusters.
var clusterResource = provv1.SchemeGroupVersion.WithResource("clusters")

// Writer writes to a management cluster.
type Writer struct {
	client rest.Interface
}

// New returns a Writer. It makes no API call. version is that of the program, for the user agent.
func New(config *rest.Config, version string) (*Writer, error) {
	scheme, err := clients.NewScheme()
	if err != nil {
		return nil, err
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	config = rest.CopyConfig(config)
	config.UserAgent = "drover/" + version
	config.APIPath, config.GroupVersion = "/apis", &provv1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return &Writer{client}, nil
}

// Cluster reads a Cluster.
func (w *Writer) Cluster(ctx context.Context, namespace, name string) (*provv1.Cluster, error) {
	found := &provv1.Cluster{}
	if err := w.client.Get().Namespace(namespace).Resource(clusterResource.Resource).Name(name).Do(ctx).
		Into(found); err != nil {
		_, err = inspect.UnreadCluster(err, namespace, name)
		return nil, err
	}
	return found, nil
}

// Change writes a change of a Cluster, and returns the Cluster. It returns edit.ErrChanged if the Cluster is not the
// one that the user has seen. A change of the status alone is no obstacle.
func (w *Writer) Change(ctx context.Context, change edit.Change) (*provv1.Cluster, error) {
	written := &provv1.Cluster{}
	err := w.onNewest(ctx, change.Before, func(now *provv1.Cluster) error {
		newer, err := change.On(now)
		if err != nil {
			return err
		}
		patch, err := newer.Patch()
		if err != nil {
			return err
		}
		return unwritten("change cluster "+now.Namespace+"/"+now.Name, w.client.Patch(types.JSONPatchType).
			MaxRetries(0).Namespace(now.Namespace).Resource(clusterResource.Resource).Name(now.Name).Body(patch).
			Do(ctx).Into(written))
	})
	if err != nil {
		return nil, err
	}
	return written, nil
}

// Delete deletes exactly the Cluster that the user has seen. It returns edit.ErrChanged for another one. A change of
// the status alone is no obstacle.
func (w *Writer) Delete(ctx context.Context, seen *provv1.Cluster) error {
	return w.onNewest(ctx, seen, func(now *provv1.Cluster) error {
		options, err := edit.Preconditions(now)
		if err != nil {
			return err
		}
		return unwritten("delete cluster "+now.Namespace+"/"+now.Name, w.client.Delete().MaxRetries(0).
			Namespace(now.Namespace).Resource(clusterResource.Resource).Name(now.Name).
			SetHeader("Content-Type", "application/json").Body(options).Do(ctx).Error())
	})
}

// onNewest writes for exactly the newest version of a Cluster. A write that another one has refused had no effect. If
// that one has changed nothing but the status, the next attempt names the newer version.
func (w *Writer) onNewest(ctx context.Context, seen *provv1.Cluster, write func(now *provv1.Cluster) error) error {
	var err error
	for range attempts {
		now, unread := w.Cluster(ctx, seen.Namespace, seen.Name)
		if unread == nil {
			unread = edit.Unchanged(seen, now)
		}
		if unread != nil {
			return unread
		}
		if err = write(now); !errors.Is(err, edit.ErrChanged) {
			break
		}
	}
	return err
}

// ErrUnknown says that a write may have taken effect.
var ErrUnknown = errors.New("it may have taken effect, so look before you try again")

// unwritten returns the error of a write. If it does not come from the API server, or the API server has lost its
// storage, the result is unknown.
func unwritten(what string, err error) error {
	var status apierrors.APIStatus
	switch {
	case err == nil, errors.Is(err, edit.ErrChanged):
		return err
	case apierrors.IsConflict(err):
		return edit.ErrChanged
	case errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError &&
		!apierrors.IsUnexpectedServerError(err):
		return fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("%s: %w: %w", what, ErrUnknown, err)
}

package proxy

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-io/drover/pkg/decide/naming"
)

// Ways are how Cluster API's controllers reach clusters, which need not be Drover's own: through the tunnel those that have one, and others with the
// kubeconfig that is in their Secret, as it is. It is safe for concurrent use.
type Ways struct {
	door    *Door
	secrets Secrets
}

// NewWays returns Ways. Without a door, all clusters are reached with their kubeconfigs.
func NewWays(door *Door, secrets Secrets) *Ways { return &Ways{door: door, secrets: secrets} }

// Open identifies the way to a cluster and changes when that does. It is "" while there is none, and while the cluster's agent is not connected here.
func (w *Ways) Open(cluster types.NamespacedName) (string, error) {
	if w.door != nil {
		if id, tunneled := w.door.tunneled(cluster); tunneled {
			if !w.door.tunnels.Connected(id) {
				return "", nil
			}
			return "tunnel/" + id, nil
		}
	}
	return secretVersion(w.secrets, cluster)
}

// RESTConfig returns how to reach a cluster. The caller may change the copy it gets. The error is ErrNotAvailable while nothing is known. A kubeconfig
// that would have this process run a program, read its own files or be somebody else is refused: whoever may write Secrets in a cluster's
// namespace may write that one, too.
func (w *Ways) RESTConfig(ctx context.Context, cluster types.NamespacedName) (*rest.Config, error) {
	if w.door != nil {
		if _, tunneled := w.door.tunneled(cluster); tunneled {
			return w.door.RESTConfig(ctx, cluster)
		}
	}
	secret, err := w.secrets.Get(cluster.Namespace, naming.Kubeconfig(cluster.Name))
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%s: %w", cluster, ErrNotAvailable)
	}
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig of cluster %s: %w", cluster, err)
	}
	if err := Harmless(secret.Data[KubeconfigKey]); err != nil {
		return nil, fmt.Errorf("kubeconfig in Secret %s/%s cannot be used: %w", secret.Namespace, secret.Name, err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data[KubeconfigKey])
	if err != nil {
		return nil, fmt.Errorf("kubeconfig in Secret %s/%s cannot be used", secret.Namespace, secret.Name) // the reason may repeat what is in it
	}
	return forLists(config), nil
}

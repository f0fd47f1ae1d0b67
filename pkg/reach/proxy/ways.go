package proxy

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/pkg/decide/naming"
)

// Ways is how Cluster API's controllers reach clusters, including clusters that Drover did not create. It uses the
// tunnel of a cluster that has one, and otherwise the kubeconfig in the cluster's Secret, unchanged. It is safe for
// concurrent use.
type Ways struct {
	door    *Door
	secrets Secrets
	servers Servers
}

// NewWays returns Ways. Without a door, all clusters are reached by their kubeconfigs, which must follow the rules of
// servers.
func NewWays(door *Door, secrets Secrets, servers Servers) *Ways {
	return &Ways{door: door, secrets: secrets, servers: servers}
}

// Open identifies the way to a cluster and changes with it. It is "" while there is none, or while the cluster's agent
// is not connected to this replica.
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

// RESTConfig returns the client configuration of a cluster. The caller owns the copy. The error is ErrNotAvailable
// while there is neither a tunnel nor a kubeconfig. It is a *RefusedError for a kubeconfig that would make this process
// run a program, read local files, impersonate another user, or connect to a forbidden address. Users with write access
// to Secrets in the cluster's namespace control that kubeconfig.
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
	config, err := w.servers.configFor(secret)
	if err != nil {
		return nil, err
	}
	return forLists(config), nil
}

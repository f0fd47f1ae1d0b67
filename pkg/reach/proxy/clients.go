package proxy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/pkg/decide/naming"
)

// ErrNotAvailable means that a cluster cannot be reached yet, because it has no kubeconfig. The event of its Secret
// ends the wait.
var ErrNotAvailable = errors.New("cluster has no kubeconfig yet")

// DefaultTimeout is the deadline of one call to a downstream cluster.
const DefaultTimeout = 10 * time.Second

const (
	requestsPerSecond = 20
	requestBurst      = 30
	userAgent         = "drover-downstream"
)

// Secrets reads Secrets from a cache. A generated SecretCache implements it.
type Secrets interface {
	Get(namespace, name string) (*corev1.Secret, error)
}

// Downstream connects to the clusters that Drover manages. Clients and Door implement it. A cluster is named by the
// namespace and name of its provisioning Cluster. Methods must be safe for concurrent use. They never wait for a
// cluster: the clients do, with a deadline.
type Downstream interface {
	// Client returns a client of the cluster's API. It returns ErrNotAvailable while no connection is known.
	Client(ctx context.Context, cluster types.NamespacedName) (kubernetes.Interface, error)
	// Version changes whenever the connection to the cluster changes. It is "" while there is none.
	Version(cluster types.NamespacedName) (string, error)
	// Forget drops what is kept for a cluster that no longer exists.
	Forget(cluster types.NamespacedName)
}

// ClientGetter is the part of Downstream that most controllers need.
type ClientGetter interface {
	Client(ctx context.Context, cluster types.NamespacedName) (kubernetes.Interface, error)
}

// Clients provides clients of downstream clusters. The namespace and name of its provisioning Cluster identify a
// cluster. Clients builds one client for each version of the cluster's kubeconfig Secret, without API calls. Clients is
// safe for concurrent use.
type Clients struct {
	secrets Secrets
	timeout time.Duration
	servers Servers

	mu    sync.Mutex
	known map[types.NamespacedName]entry
}

type entry struct {
	version string
	config  *rest.Config
	client  kubernetes.Interface
}

// NewClients returns Clients that read kubeconfigs from secrets, which must follow the rules of servers. timeout is the
// deadline of one call. 0 means DefaultTimeout.
func NewClients(secrets Secrets, timeout time.Duration, servers Servers) *Clients {
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	return &Clients{secrets: secrets, timeout: timeout, servers: servers, known: map[types.NamespacedName]entry{}}
}

// RESTConfig returns the client configuration of a cluster. The caller owns the copy. The error is ErrNotAvailable
// without a kubeconfig.
func (c *Clients) RESTConfig(_ context.Context, cluster types.NamespacedName) (*rest.Config, error) {
	found, err := c.lookup(cluster)
	if err != nil {
		return nil, err
	}
	return forLists(found.config), nil
}

// Client returns a client of a cluster whose calls end after the deadline. It is unsuitable for watches. The error is
// ErrNotAvailable without a kubeconfig.
func (c *Clients) Client(_ context.Context, cluster types.NamespacedName) (kubernetes.Interface, error) {
	found, err := c.lookup(cluster)
	if err != nil {
		return nil, err
	}
	return found.client, nil
}

// Forget drops cached data of a deleted cluster.
func (c *Clients) Forget(cluster types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, cluster)
}

// Version identifies the kubeconfig of a cluster, or is "" without one. It changes whenever the kubeconfig may have
// changed.
func (c *Clients) Version(cluster types.NamespacedName) (string, error) {
	return secretVersion(c.secrets, cluster)
}

func secretVersion(secrets Secrets, cluster types.NamespacedName) (string, error) {
	secret, err := secrets.Get(cluster.Namespace, naming.Kubeconfig(cluster.Name))
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read kubeconfig of cluster %s: %w", cluster, err)
	}
	return versionOf(secret), nil
}

func versionOf(secret *corev1.Secret) string {
	return string(secret.UID) + "/" + secret.ResourceVersion
}

func (c *Clients) lookup(cluster types.NamespacedName) (entry, error) {
	secret, err := c.secrets.Get(cluster.Namespace, naming.Kubeconfig(cluster.Name))
	if apierrors.IsNotFound(err) {
		return entry{}, fmt.Errorf("%s: %w", cluster, ErrNotAvailable)
	}
	if err != nil {
		return entry{}, fmt.Errorf("read kubeconfig of cluster %s: %w", cluster, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if found, ok := c.known[cluster]; ok && found.version == versionOf(secret) {
		return found, nil
	}
	built, err := c.build(secret)
	if err != nil {
		return entry{}, fmt.Errorf("cluster %s: %w", cluster, err)
	}
	c.known[cluster] = built
	return built, nil
}

// build never includes the Secret's content in an error.
func (c *Clients) build(secret *corev1.Secret) (entry, error) {
	if _, err := Capture(secret.Data[KubeconfigKey]); err != nil {
		return entry{}, fmt.Errorf("kubeconfig in Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	config, err := c.servers.configFor(secret)
	if err != nil {
		return entry{}, err
	}
	config.Timeout = c.timeout
	config.QPS, config.Burst = requestsPerSecond, requestBurst
	config.UserAgent = userAgent
	client, err := clientFor(config)
	if err != nil {
		return entry{}, fmt.Errorf("kubeconfig in Secret %s/%s is unusable", secret.Namespace, secret.Name)
	}
	return entry{version: versionOf(secret), config: config, client: client}, nil
}

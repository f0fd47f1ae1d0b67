package proxy

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Tunnels are the clusters with a connected agent, by management cluster name. tunnel.Server implements it.
type Tunnels interface {
	// Connected reports whether an agent of the cluster is connected to this replica.
	Connected(id string) bool
	// Transport returns a RoundTripper to the cluster's API server. It fails immediately while no agent is connected.
	Transport(id string) (http.RoundTripper, error)
}

// Way is how to reach a cluster.
type Way struct {
	// ID is the name of the management cluster, or "" if there is none yet.
	ID string
	// Agent means that the cluster's agent has connected before. From then on only the tunnel is used.
	Agent bool
}

// Identity is Drover's identity in a cluster behind a tunnel. The agent's manifest binds Group to cluster-admin there.
type Identity struct{ User, Group string }

// Door reaches clusters through their tunnels. Until a cluster's agent connects for the first time, it uses the
// kubeconfig from the cluster's servers. It is safe for concurrent use.
type Door struct {
	direct   *Clients
	tunnels  Tunnels
	way      func(types.NamespacedName) Way
	identity func(types.NamespacedName) Identity

	mu    sync.Mutex
	known map[types.NamespacedName]through
}

// through is a client of a cluster through its tunnel.
type through struct {
	id     string
	config *rest.Config
	client kubernetes.Interface
}

// NewDoor returns a Door. way returns from a cache how to reach a cluster. identity returns Drover's identity there.
func NewDoor(direct *Clients, tunnels Tunnels, way func(types.NamespacedName) Way,
	identity func(types.NamespacedName) Identity) *Door {
	return &Door{direct: direct, tunnels: tunnels, way: way, identity: identity,
		known: map[types.NamespacedName]through{}}
}

// Client returns a client of a cluster. Its calls end after the deadline, and fail immediately while the agent is
// disconnected. The error is ErrNotAvailable while there is neither a tunnel nor a kubeconfig.
func (d *Door) Client(ctx context.Context, cluster types.NamespacedName) (kubernetes.Interface, error) {
	id, tunneled := d.tunneled(cluster)
	if !tunneled {
		return d.direct.Client(ctx, cluster)
	}
	found, err := d.through(cluster, id)
	if err != nil {
		return nil, err
	}
	return found.client, nil
}

// RESTConfig returns the client configuration of a cluster, for clients that list whole kinds. The caller owns the
// copy. The error is ErrNotAvailable while there is neither a tunnel nor a kubeconfig.
func (d *Door) RESTConfig(ctx context.Context, cluster types.NamespacedName) (*rest.Config, error) {
	id, tunneled := d.tunneled(cluster)
	if !tunneled {
		return d.direct.RESTConfig(ctx, cluster)
	}
	found, err := d.through(cluster, id)
	if err != nil {
		return nil, err
	}
	return forLists(found.config), nil
}

// forLists returns a copy for clients that list whole kinds.
func forLists(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(limitTo(listLimit))
	config.Wrap(refuseRedirects)
	return config
}

// Version changes whenever the way to the cluster changes. It is "" while there is none.
func (d *Door) Version(cluster types.NamespacedName) (string, error) {
	if id, tunneled := d.tunneled(cluster); tunneled {
		return "tunnel/" + id, nil
	}
	return d.direct.Version(cluster)
}

// Forget drops cached data of a deleted cluster.
func (d *Door) Forget(cluster types.NamespacedName) {
	d.direct.Forget(cluster)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.known, cluster)
}

func (d *Door) tunneled(cluster types.NamespacedName) (id string, tunneled bool) {
	way := d.way(cluster)
	return way.ID, way.ID != "" && (way.Agent || d.tunnels.Connected(way.ID))
}

func (d *Door) through(cluster types.NamespacedName, id string) (through, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if found, ok := d.known[cluster]; ok && found.id == id {
		return found, nil
	}
	who := d.identity(cluster)
	config := &rest.Config{
		// The transport knows the address. This host is only for messages.
		Host:        "http://" + id,
		Transport:   roundTripper(func(r *http.Request) (*http.Response, error) { return d.send(id, r) }),
		Impersonate: rest.ImpersonationConfig{UserName: who.User, Groups: []string{who.Group}},
		Timeout:     d.direct.timeout,
		QPS:         requestsPerSecond,
		Burst:       requestBurst,
		UserAgent:   userAgent,
	}
	client, err := clientFor(config)
	if err != nil {
		return through{}, fmt.Errorf("cluster %s: make a client for its tunnel: %w", cluster, err)
	}
	d.known[cluster] = through{id: id, config: config, client: client}
	return d.known[cluster], nil
}

// clientFor returns a client for Drover's own calls.
func clientFor(config *rest.Config) (kubernetes.Interface, error) {
	config = rest.CopyConfig(config)
	config.Wrap(limitTo(answerLimit))
	config.Wrap(refuseRedirects)
	return kubernetes.NewForConfig(config)
}

// send looks up the session for each request, because clients outlive sessions.
func (d *Door) send(id string, r *http.Request) (*http.Response, error) {
	transport, err := d.tunnels.Transport(id)
	if err != nil {
		return nil, err
	}
	return transport.RoundTrip(r)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// CloseIdleConnections does nothing, because the connections belong to the tunnel. Code that drops a cluster's clients
// calls it.
func (f roundTripper) CloseIdleConnections() {}

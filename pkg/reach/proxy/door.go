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

// Tunnels are the clusters whose agents have dialed in, by the name of their management cluster; tunnel.Server is one.
type Tunnels interface {
	// Connected tells whether an agent of the cluster is connected here.
	Connected(id string) bool
	// Transport returns what reaches the cluster's API server, and an error at once while no agent is connected.
	Transport(id string) (http.RoundTripper, error)
}

// Way says how a cluster is reached.
type Way struct {
	// ID is the name of its management cluster, "" while it has none.
	ID string
	// Agent is true for a cluster whose agent was connected once: nothing but its tunnel is tried any more.
	Agent bool
}

// Identity is who Drover is in a cluster that it reaches through a tunnel. The manifest of the agent binds Group to cluster-admin there.
type Identity struct{ User, Group string }

// Door reaches clusters through their tunnels, and until a cluster's agent has dialed in for the first time with the kubeconfig that its servers gave.
// It is safe for concurrent use.
type Door struct {
	direct   *Clients
	tunnels  Tunnels
	way      func(types.NamespacedName) Way
	identity func(types.NamespacedName) Identity

	mu    sync.Mutex
	known map[types.NamespacedName]through
}

// through is how a cluster is reached through its tunnel.
type through struct {
	id     string
	config *rest.Config
	client kubernetes.Interface
}

// NewDoor returns a Door. way tells from a cache how a cluster is reached, identity who Drover is there.
func NewDoor(direct *Clients, tunnels Tunnels, way func(types.NamespacedName) Way, identity func(types.NamespacedName) Identity) *Door {
	return &Door{direct: direct, tunnels: tunnels, way: way, identity: identity, known: map[types.NamespacedName]through{}}
}

// Client returns a client of a cluster, in which every call ends after the deadline, and at once while its agent is not connected. The error is
// ErrNotAvailable while nothing is known about how to reach the cluster.
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

// RESTConfig returns how to reach a cluster, for clients that list whole kinds. The caller may change the copy it gets. The error is ErrNotAvailable while
// nothing is known.
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

// forLists is a copy for clients that list whole kinds.
func forLists(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(limitTo(listLimit))
	return config
}

// Version changes whenever the way to the cluster does; it is "" while there is none.
func (d *Door) Version(cluster types.NamespacedName) (string, error) {
	if id, tunneled := d.tunneled(cluster); tunneled {
		return "tunnel/" + id, nil
	}
	return d.direct.Version(cluster)
}

// Forget drops what is cached for a cluster that is gone.
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
		// The transport knows the address; this one is for messages.
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
		return through{}, fmt.Errorf("cluster %s: make client of its tunnel: %w", cluster, err)
	}
	d.known[cluster] = through{id: id, config: config, client: client}
	return d.known[cluster], nil
}

// clientFor makes a client of Drover's own.
func clientFor(config *rest.Config) (kubernetes.Interface, error) {
	config = rest.CopyConfig(config)
	config.Wrap(limitTo(answerLimit))
	return kubernetes.NewForConfig(config)
}

// send looks the session up for each request: agents come and go, clients stay.
func (d *Door) send(id string, r *http.Request) (*http.Response, error) {
	transport, err := d.tunnels.Transport(id)
	if err != nil {
		return nil, err
	}
	return transport.RoundTrip(r)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// CloseIdleConnections does nothing: connections belong to the tunnel. Whoever ends what they have of a cluster calls it.
func (f roundTripper) CloseIdleConnections() {}

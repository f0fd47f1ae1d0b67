package server

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/registration"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/observe/metrics"
	"github.com/drover-io/drover/pkg/reach/clusterproxy"
	"github.com/drover-io/drover/pkg/reach/connect"
	"github.com/drover-io/drover/pkg/reach/proxy"
	"github.com/drover-io/drover/pkg/reach/scaling"
	"github.com/drover-io/drover/pkg/reach/tunnel"
	"github.com/drover-io/drover/pkg/reach/unread"
)

// Tunnel connects the agents of clusters with Drover. It identifies clusters by the names of their management clusters.
// A host with its own tunnels to clusters may provide one. Methods are safe for concurrent use and do not wait for
// agents.
type Tunnel interface {
	// Connected reports whether an agent of the cluster is connected to this replica.
	Connected(id string) bool
	// Transport returns the transport to the cluster's API server. It sets scheme, host and credential of a request,
	// and passes headers Impersonate-* on. The error is ErrNotConnected while no agent is connected. A request whose
	// connection is lost fails with the same error.
	Transport(id string) (http.RoundTripper, error)
	// Subscribe calls listener, until ctx ends, with each cluster whose agent connects or disconnects.
	Subscribe(ctx context.Context, listener func(id string))
}

// RequestAuthenticator identifies the user of a request to a cluster.
type RequestAuthenticator = clusterproxy.RequestAuthenticator

// Authorizer decides what users may do with clusters.
type Authorizer = clusterproxy.Authorizer

// ErrNotConnected is the error while no agent of a cluster is connected to this replica.
var ErrNotConnected = tunnel.ErrNotConnected

// Reach configures how users and agents reach clusters. Its zero value is valid: each nil selects Drover's own.
type Reach struct {
	// Tunnel takes the connections of agents; nil serves tunnel.Paths here.
	Tunnel Tunnel
	// Authenticator identifies the user of a request; nil asks the management cluster.
	Authenticator RequestAuthenticator
	// Authorizer decides which users may reach which clusters. Nil asks the management cluster whether the user may get
	// the Cluster.
	Authorizer Authorizer
	// ClientCA returns the authorities of client certificates, for listeners that ask for one; nil accepts none.
	ClientCA func() *x509.CertPool
	// WithoutAgents installs no agent in clusters that Drover creates. Drover reaches them at the address of a server,
	// with the credential of that server. Imported clusters still have an agent.
	WithoutAgents bool
	// AllowLoopback permits loopback addresses in the kubeconfigs of clusters, for clusters on this host. Users who may
	// write Secrets can then make Drover connect to any port of this host.
	AllowLoopback bool
	// Verb is the verb that a user needs on a Cluster to reach it; "get" when it is empty.
	Verb string
	// EndpointTokenLife is the longest lifetime of a token for the authorized endpoint of a cluster;
	// endpointtoken.DefaultLife when zero.
	EndpointTokenLife time.Duration
	// Replica is the unique identifier of this replica; a random one when it is empty. Replicas returns the number of
	// replicas, and agents keep a connection to each; one when it is nil.
	Replica  string
	Replicas func() int
}

// reach holds what the server builds from Reach.
type reach struct {
	tunnel Tunnel
	// own is the tunnel if it is Drover's.
	own   *tunnel.Server
	proxy http.Handler
	// scaling serves the API of the management cluster for autoscalers.
	scaling http.Handler
	// unread ends streams whose client stops reading.
	unread *unread.Ledger
	// door connects Drover to clusters; nil when the host does that. ways connects Cluster API's controllers.
	door *proxy.Door
	ways *proxy.Ways
}

// serviceHost is the variable in which Kubernetes sets the address of the API server for each pod.
const serviceHost = "KUBERNETES_SERVICE_HOST"

// servers returns the rules for the addresses in kubeconfigs.
func (r Reach) servers() proxy.Servers {
	servers := proxy.Servers{AllowLoopback: r.AllowLoopback}
	if host := os.Getenv(serviceHost); host != "" {
		servers.Management = []string{host}
	}
	return servers
}

// newReach builds the endpoints that reach clusters, and adds their indexes to the caches.
func (s *Server) newReach(registrations *connect.Registrations) error {
	o := s.opts.Reach
	s.reach.tunnel = o.Tunnel
	if o.Tunnel == nil {
		own, err := tunnel.New(tunnel.Options{
			Cluster: func(token string) (string, bool) { return registrations.Lookup(token, registration.ForAgent) },
			Replica: cmp.Or(o.Replica, uuid.NewString()), Replicas: o.Replicas, Metrics: s.opts.Registerer,
			Log: s.opts.Log,
		})
		if err != nil {
			return fmt.Errorf("configure the tunnel: %w", err)
		}
		s.reach.tunnel, s.reach.own = own, own
	}
	if s.opts.Downstream == nil {
		s.reach.door = controllers.NewDoor(s.every, s.reach.tunnel, o.servers(), identity)
	}
	s.reach.ways = proxy.NewWays(s.reach.door, s.every.Core.Secret().Cache(), o.servers())
	s.every.Provisioning.Cluster().Cache().AddIndexer(provv1.IndexByCluster, topology.ByManagementCluster)
	s.every.Core.Secret().Cache().AddIndexer(clusterproxy.TokenIndex, clusterproxy.TokenIndexer)
	var err error
	if s.reach.unread, err = s.newUnread(); err != nil {
		return err
	}
	if s.reach.scaling, err = scaling.New(scaling.Options{
		Upstream: s.opts.RESTConfig, Secrets: s.every.Core.Secret().Cache(),
		Clusters: s.every.Provisioning.Cluster().Cache(), Unread: s.reach.unread, Ending: s.drained, Log: s.opts.Log,
	}); err != nil {
		return fmt.Errorf("configure the API for autoscalers: %w", err)
	}
	handler, err := clusterproxy.New(s.opts.Limits.ofProxy(clusterproxy.Options{
		Unread:    s.reach.unread,
		Transport: s.reach.tunnel.Transport, NotConnected: ErrNotConnected, Lookup: s.clusterOf,
		Tokens: s.every.Core.Secret().Cache(), TokenNamespace: controllers.SystemNamespace,
		TokenReviews: s.every.Kubernetes.AuthenticationV1().TokenReviews(), ClientCA: o.ClientCA,
		Authenticator: o.Authenticator,
		AccessReviews: s.every.Kubernetes.AuthorizationV1().SubjectAccessReviews(), Verb: o.Verb,
		Authorizer: o.Authorizer,
		Endpoint:   s.endpointOf, EndpointServers: s.endpointServers, EndpointAuthority: s.endpointAuthority,
		EndpointTokenLife: o.EndpointTokenLife, Log: s.opts.Log, Registerer: s.opts.Registerer,
	}))
	if err != nil {
		return fmt.Errorf("configure the connections to clusters: %w", err)
	}
	s.reach.proxy = handler
	return nil
}

// newUnread supervises the streams of all endpoints.
func (s *Server) newUnread() (*unread.Ledger, error) {
	ended, err := metrics.NewUnread(s.opts.Registerer, unread.Reasons())
	if err != nil {
		return nil, err
	}
	return unread.New(unread.Options{Bytes: s.opts.Limits.UnreadBytes,
		TenantBytes: s.opts.Limits.UnreadBytesPerNamespace, Ended: ended}), nil
}

// clusterOf finds the Cluster of a management cluster. If two Clusters claim it, clusterOf finds none.
func (s *Server) clusterOf(id string) (namespace, name string, ok bool) {
	found, ok := s.cluster(id)
	if !ok {
		return "", "", false
	}
	return found.Namespace, found.Name, true
}

func (s *Server) cluster(id string) (*provv1.Cluster, bool) {
	found, err := s.every.Provisioning.Cluster().Cache().GetByIndex(provv1.IndexByCluster, id)
	if err != nil || len(found) != 1 {
		return nil, false
	}
	return found[0], true
}

// hostCluster finds the Cluster that a host joins with a token of a management cluster. This Drover must manage it.
func (s *Server) hostCluster(id string) (types.NamespacedName, bool) {
	found, ok := s.cluster(id)
	if !ok || !topology.IsOurs(found, s.opts.InstanceID) {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: found.Namespace, Name: found.Name}, true
}

// subscribeConnections calls changed, until ctx ends, for every cluster whose agent connects or disconnects, or whose
// kubeconfig is written.
func (s *Server) subscribeConnections(ctx context.Context, changed func(cluster types.NamespacedName)) {
	watched := &watched{}
	context.AfterFunc(ctx, watched.end)
	written := func(secret *corev1.Secret) {
		if name, ok := naming.ClusterOfKubeconfig(secret.Name); ok && secret.Type == clusterv1.ClusterSecretType {
			changed(types.NamespacedName{Namespace: secret.Namespace, Name: name})
		}
	}
	// The only error is that the informer has ended, with the server.
	_ = on(watched, s.every.Core.Secret().Informer(), changes[*corev1.Secret]{
		seen: written, updated: func(_, after *corev1.Secret) { written(after) }, removed: written,
	})
	s.reach.tunnel.Subscribe(ctx, func(id string) {
		if namespace, name, ok := s.clusterOf(id); ok {
			changed(types.NamespacedName{Namespace: namespace, Name: name})
		}
	})
}

// route handles requests to clusters and connections of agents, and passes all others to next. It answers 503 until the
// caches are filled, because it cannot authenticate before.
func (s *Server) route(next http.Handler) http.Handler {
	exact := tunnel.Paths()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.EscapedPath()
		var handler http.Handler
		switch {
		case s.reach.own != nil && slices.Contains(exact, path):
			handler = s.reach.own
		case strings.HasPrefix(path, scaling.Prefix):
			handler = s.reach.scaling
		case slices.ContainsFunc(append(clusterproxy.DefaultPrefixes(), clusterproxy.EndpointTokensPrefix,
			clusterproxy.EndpointsPrefix), func(prefix string) bool { return strings.HasPrefix(path, prefix) }):
			handler = s.reach.proxy
		default:
			next.ServeHTTP(w, r)
			return
		}
		if !s.isServing() {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "caches are not filled yet", http.StatusServiceUnavailable)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// identity is Drover's user in a cluster that it reaches through its tunnel. (docs/wire/endpoints.md#proxy.)
func identity(cluster types.NamespacedName) proxy.Identity {
	return proxy.Identity{User: clusterproxy.MachineUserPrefix + cluster.Namespace + ":" + cluster.Name,
		Group: clusterproxy.AdminGroup}
}

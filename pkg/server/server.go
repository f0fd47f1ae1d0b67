package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/pkg/admission/webhook"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/pkg/kube/access"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/observe/metrics"
	"github.com/drover-io/drover/pkg/reach/clusterproxy"
	"github.com/drover-io/drover/pkg/reach/connect"
	"github.com/drover-io/drover/pkg/reach/tunnel"
)

// Paths lists what a host has to route to Handler: exact paths, and prefixes that end in a slash.
func Paths() []string {
	return slices.Concat(connect.Paths(), tunnel.Paths(), clusterproxy.DefaultPrefixes())
}

// AdmissionPaths lists what a host has to route to AdmissionHandler: exact paths, and prefixes that end in a slash.
func AdmissionPaths() []string {
	return []string{webhook.ValidatePath, webhook.MutatePath, webhook.GrantsPath}
}

// Server is Drover. New creates it.
type Server struct {
	opts Options
	// every holds the caches of the endpoints, which run on every replica.
	every   *clients.Clients
	handler http.Handler
	reach   reach
	// registrations finds the cluster of a registration token.
	registrations *connect.Registrations
	// admission serves the webhooks.
	admission http.Handler
	leading   atomic.Bool
	// grantsKey signs the grants for references to other namespaces that admission issues.
	grantsKey []byte
	// disruptions, agentUpdates, reconciles and fleet are metrics over all terms.
	disruptions  *metrics.Disruptions
	agentUpdates *metrics.AgentUpdates
	reconciles   *metrics.Reconciles
	fleet        *metrics.Fleet

	// serving is closed once the endpoints serve. serveContext is the context of Serve and is set before that.
	serving      chan struct{}
	serveContext context.Context // kinds of a host's factory run as long as the endpoints

	// installScript returns the SHA-256 of the install script for hosts.
	installScript func() string
	// nodeAgent returns the node agent that machines are offered.
	nodeAgent func() *render.Agent
	// draining is closed by Drain, and drained once its delay is over.
	draining, drained chan struct{}
	drain             sync.Once
}

// New checks the options and creates clients. It makes no API call, so the management cluster may be unavailable.
func New(opts Options) (*Server, error) {
	opts, err := opts.complete()
	if err != nil {
		return nil, fmt.Errorf("configure drover: %w", err)
	}
	s := &Server{opts: opts, serving: make(chan struct{}), draining: make(chan struct{}), drained: make(chan struct{})}
	if err := s.registerMetrics(); err != nil {
		return nil, fmt.Errorf("configure drover: %w", err)
	}
	s.every, err = clients.New(opts.RESTConfig, clients.Options{
		Version: opts.Version, Factory: opts.ControllerFactory, SyncTimeout: opts.StartTimeout, WithoutDynamic: true,
		SecretBytes: opts.Limits.CachedSecretBytes,
	})
	if err != nil {
		return nil, fmt.Errorf("configure drover: %w", err)
	}
	management := s.every.Management.Cluster().Cache()
	s.registrations = connect.NewRegistrations(connect.RegistrationOptions{
		Secrets: s.every.Core.Secret().Cache(), Clusters: management, Log: opts.Log,
	})
	if err := s.newReach(s.registrations); err != nil {
		return nil, fmt.Errorf("configure drover: %w", err)
	}
	endpoints := connect.Options{
		ServerURL:           opts.Settings.ServerURL,
		CACerts:             []byte(opts.Settings.CACerts),
		AssetsDir:           opts.AssetsDir,
		Binary:              opts.AgentBinary,
		Upstream:            rest.CopyConfig(opts.RESTConfig),
		SecretCache:         s.every.Core.Secret().Cache(),
		SecretClient:        s.every.Core.Secret(),
		ServiceAccountCache: s.every.Core.ServiceAccount().Cache(),
		MachineCache:        s.every.CAPI.Machine().Cache(),
		MachineClient:       s.every.CAPI.Machine(),
		BootstrapCache:      s.every.RKE.RKEBootstrap().Cache(),
		BootstrapClient:     s.every.RKE.RKEBootstrap(),
		Registrations:       s.registrations,
		HostCluster:         s.hostCluster,
		Agent:               opts.agentManifests(management),
		Synced:              s.isServing,
		Ready:               func(context.Context) error { return s.Ready() },
		Ending:              s.drained,
		MachineWrites:       opts.Limits.MachineWrites,
		MachineWriteBytes:   opts.Limits.MachineWriteBytes,
		Unread:              s.reach.unread,
		Log:                 opts.Log,
		MaxWaitingHosts:     int(opts.Limits.WaitingHosts),
		MaxConnecting:       int(opts.Limits.ConnectRequests),

		MaxClusterConnecting: int(opts.Limits.ClusterConnectRequests),
	}
	machines, err := connect.New(endpoints)
	if err != nil {
		return nil, fmt.Errorf("configure endpoints: %w", err)
	}
	if s.installScript, err = connect.InstallScriptSHA256(endpoints); err != nil {
		return nil, fmt.Errorf("configure endpoints: %w", err)
	}
	if s.nodeAgent, err = connect.OfferedAgent(endpoints, opts.agentVersion()); err != nil {
		return nil, fmt.Errorf("configure endpoints: %w", err)
	}
	pages, err := s.newUI()
	if err != nil {
		return nil, err
	}
	s.handler = s.routeUI(pages, s.route(machines))
	s.admission = webhook.New(webhook.Options{
		InstanceID: opts.InstanceID,
		Releases:   *opts.Releases,
		Clusters:   s.every.Provisioning.Cluster().Cache(),
		Machines:   s.every.CAPI.Machine().Cache(),
		Snapshots:  s.every.RKE.ETCDSnapshot().Cache(),
		HasSecret:  s.hasSecret,
		Schemas:    s.every.Management.DynamicSchema().Cache(),
		Synced:     s.isServing,
		Key:        func() []byte { return s.grantsKey },
		Review:     access.Review(s.every.Kubernetes),
		Trust:      access.Trust(s.every.Kubernetes),
		Secrets:    s.every.Core.Secret().Cache(),
		Log:        opts.Log,
	})
	return s, nil
}

// hasSecret asks the API server whether a Secret exists.
func (s *Server) hasSecret(ctx context.Context, secret types.NamespacedName) (bool, error) {
	_, err := s.every.Kubernetes.CoreV1().Secrets(secret.Namespace).Get(ctx, secret.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// AdmissionHandler serves the admission webhooks. Only the API server should reach it, because webhooks cannot identify
// the caller. It answers at once. Until the caches are filled, rules that need other objects allow every request.
// (docs/admission.md.)
func (s *Server) AdmissionHandler() http.Handler { return s.admission }

// Handler serves the endpoints for machines. It answers at once, with "not ready" until the caches are filled.
func (s *Server) Handler() http.Handler { return s.handler }

// Ready returns an error until the endpoints serve, and from Drain on.
func (s *Server) Ready() error {
	switch {
	case !s.isServing():
		return errors.New("caches are not filled yet")
	case closed(s.draining):
		return errors.New("this replica is shutting down")
	}
	return nil
}

func (s *Server) isServing() bool { return closed(s.serving) }

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Drain prepares the end of a replica without an effect on machines. Ready and /readyz fail from now on, so that load
// balancers send machines to other replicas. They have the time delay for it. Then Drain ends the watches of agents,
// which reconnect elsewhere, and returns.
//
// The endpoints keep answering: call http.Server.Shutdown next, and end the context of Serve last. There is no delay if
// nothing is served yet. The end of ctx ends the delay.
func (s *Server) Drain(ctx context.Context, delay time.Duration) {
	s.drain.Do(func() {
		close(s.draining)
		if s.isServing() {
			select {
			case <-time.After(delay):
			case <-ctx.Done():
			}
		}
		close(s.drained)
		if s.reach.own != nil {
			s.reach.own.Drain()
		}
	})
}

// Leading reports whether the controllers run here.
func (s *Server) Leading() bool { return s.leading.Load() }

// Start serves until ctx ends: endpoints at once, controllers once Elected is closed.
func (s *Server) Start(ctx context.Context) error {
	if err := s.Serve(ctx); err != nil {
		return err
	}
	if s.opts.Elected != nil {
		select {
		case <-ctx.Done():
			return nil
		case <-s.opts.Elected:
		}
	}
	return s.Lead(ctx)
}

// Serve installs missing definitions and namespaces, and fills the caches of the endpoints. It returns once the
// endpoints serve. They serve until ctx ends. Call it once.
func (s *Server) Serve(ctx context.Context) error {
	if err := s.prepare(ctx); err != nil {
		return err
	}
	if err := s.every.Start(ctx); err != nil {
		return fmt.Errorf("start endpoints: %w", err)
	}
	s.serveContext = ctx
	close(s.serving)
	context.AfterFunc(ctx, s.every.Stop)
	return nil
}

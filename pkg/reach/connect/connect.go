package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	corecontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/core/v1"

	"github.com/drover-io/drover/pkg/decide/redact"
	capicontrollers "github.com/drover-io/drover/pkg/generated/controllers/cluster.x-k8s.io/v1beta2"
	rkecontrollers "github.com/drover-io/drover/pkg/generated/controllers/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/reach/unread"
)

// DefaultWait is how long a request waits for objects that are about to be created. Install scripts time out after a
// minute.
const DefaultWait = 45 * time.Second

// Options are the endpoints' dependencies. Start the caches' factory after New, because New adds indexes to the caches.
type Options struct {
	// ServerURL is the https URL of this server for machines, without a path. Empty means the host of the request.
	ServerURL string
	// CACerts are the authorities of ServerURL, as PEM. Empty means the system's authorities.
	CACerts []byte
	// AssetsDir contains files for /assets/, which override the built-in ones. Empty means none.
	AssetsDir string
	// Binary is the program that is served as the node agent. Empty means the running program.
	Binary string

	// Upstream is the address and TLS configuration of the Kubernetes API. Its credentials are never used.
	Upstream *rest.Config

	SecretCache         corecontrollers.SecretCache
	SecretClient        corecontrollers.SecretClient
	ServiceAccountCache corecontrollers.ServiceAccountCache
	MachineCache        capicontrollers.MachineCache
	MachineClient       capicontrollers.MachineClient
	BootstrapCache      rkecontrollers.RKEBootstrapCache
	BootstrapClient     rkecontrollers.RKEBootstrapClient

	// Registrations finds registration tokens. nil creates one from SecretCache without clusters.
	Registrations *Registrations
	// HostCluster returns the Cluster that hosts with a registration token of a management cluster join. ok is false if
	// Drover does not manage it. nil disables the registration of hosts.
	HostCluster func(managementCluster string) (cluster types.NamespacedName, ok bool)
	// Agent describes the manifests of cluster agents. nil disables them.
	Agent *AgentManifests

	// MachineWrites is the number of updates in a minute, and MachineWriteBytes their size in bytes in a second, that
	// each machine may send. 0 means DefaultMachineWrites and DefaultMachineWriteBytes.
	MachineWrites, MachineWriteBytes int64

	// Synced reports whether the caches are filled. nil means always.
	Synced func() bool
	// Ready is an additional check of /readyz: an error makes the replica not ready. nil means none.
	Ready func(context.Context) error
	// Ending is closed when this replica begins to shut down. Then watches end and waiting requests are answered. nil
	// means never.
	Ending <-chan struct{}
	// Wait is how long a request waits for objects that are about to be created. 0 means DefaultWait.
	Wait time.Duration
	// Unread ends answers to agents and downloads that the client does not read. A tenant is the namespace of a
	// machine. nil means one without budgets.
	Unread *unread.Ledger
	// MaxWaitingHosts limits the machine requests of new hosts of one cluster. MaxConnecting limits the requests for
	// connections that are in progress, and MaxClusterConnecting those of one cluster. 0 means the default.
	MaxWaitingHosts, MaxConnecting, MaxClusterConnecting int
	// Now is the clock. nil means time.Now.
	Now func() time.Time
	// Log receives messages. nil means the standard logger.
	Log logrus.FieldLogger
}

// Paths lists what a program that mounts the handler must route to it: exact paths, and prefixes that end in a slash.
func Paths() []string {
	return []string{
		"/ping", "/healthz", "/readyz", "/cacerts", "/v3/settings/cacerts", installPath, assetsPrefix, agentPath,
		importPrefix, "/version", "/api", "/apis",
		"/api/",
	}
}

type server struct {
	Options
	api    http.Handler
	assets assets
	claims claims
	// crowd and arrivals limit machines that connect.
	crowd    crowd
	arrivals arrivals
}

// New returns the handler and adds its indexes to the caches. It fails if ServerURL is no https URL, Upstream is
// unusable, or the running program cannot be found.
func New(o Options) (http.Handler, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	o.addIndexes()
	if o.Registrations == nil {
		o.Registrations = NewRegistrations(RegistrationOptions{Secrets: o.SecretCache, Now: o.Now, Log: o.Log})
	}
	s := &server{Options: o, assets: newAssets(o.AssetsDir, o.Binary),
		crowd: crowd{max: o.MaxConnecting, maxCluster: o.MaxClusterConnecting}}
	api, err := newPassthrough(&o, s.grantOf, reports{
		cached: o.SecretCache.Get,
		live: func(namespace, name string) (*corev1.Secret, error) {
			return o.SecretClient.Get(namespace, name, metav1.GetOptions{})
		},
	})
	if err != nil {
		return nil, err
	}
	s.api = api
	return s, nil
}

func (o *Options) complete() error {
	if o.Upstream == nil {
		return errors.New("upstream API configuration must be set")
	}
	if err := o.completeAddresses(); err != nil {
		return err
	}
	o.setDefaults()
	return nil
}

// completeAddresses completes what the install script contains.
func (o *Options) completeAddresses() error {
	if o.ServerURL != "" {
		u, err := url.Parse(o.ServerURL)
		if err != nil || u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("server-url must be an https URL such as https://drover.example.com, not %q",
				redact.Address(o.ServerURL))
		}
		o.ServerURL = "https://" + u.Host
	}
	if o.Binary == "" {
		path, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find the running program: %w", err)
		}
		o.Binary = path
	}
	return nil
}

func (o *Options) setDefaults() {
	if o.Synced == nil {
		o.Synced = func() bool { return true }
	}
	if o.Ready == nil {
		o.Ready = func(context.Context) error { return nil }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = logrus.StandardLogger()
	}
	o.MachineWrites = cmp.Or(o.MachineWrites, DefaultMachineWrites)
	o.MachineWriteBytes = cmp.Or(o.MachineWriteBytes, DefaultMachineWriteBytes)
	if o.Unread == nil {
		o.Unread = unread.New(unread.Options{})
	}
	o.Wait = cmp.Or(o.Wait, DefaultWait)
	o.MaxWaitingHosts = cmp.Or(o.MaxWaitingHosts, DefaultMaxWaitingHosts)
	o.MaxConnecting = cmp.Or(o.MaxConnecting, DefaultMaxConnecting)
	o.MaxClusterConnecting = cmp.Or(o.MaxClusterConnecting, DefaultMaxClusterConnecting)
}

// ServeHTTP routes by the exact path. It uses no multiplexer, because that redirects unclean paths.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	handler, known := s.plain()[path]
	switch {
	case known && r.URL.EscapedPath() == path:
		if reads(w, r) {
			handler(w, r)
		}
	case strings.HasPrefix(path, assetsPrefix) && r.URL.EscapedPath() == path:
		answer := s.Unread.Writer(w, downloads, unreadFile)
		defer answer.Done()
		s.assets.serve(answer, r, strings.TrimPrefix(path, assetsPrefix))
	case strings.HasPrefix(path, importPrefix) && (s.Synced() || s.Agent == nil):
		s.imports(w, r)
	case !s.Synced():
		// Tokens cannot be looked up yet. Kubernetes clients retry after 503 but give up after 401.
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "caches are not filled yet")
	default:
		s.api.ServeHTTP(w, r)
	}
}

// reads reports whether a request only reads. It refuses other requests.
func reads(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	w.Header().Set("Allow", "GET, HEAD")
	http.Error(w, "this path answers only GET", http.StatusMethodNotAllowed)
	return false
}

// plain lists the endpoints with one exact path and method GET.
func (s *server) plain() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"/ping":                func(w http.ResponseWriter, _ *http.Request) { text(w, "pong") },
		"/healthz":             func(w http.ResponseWriter, _ *http.Request) { text(w, "ok") },
		"/readyz":              s.readyz,
		"/cacerts":             s.cacerts,
		"/v3/settings/cacerts": s.cacertsSetting,
		installPath:            s.installScript,
		agentPath:              s.connectAgent,
	}
}

func (s *server) readyz(w http.ResponseWriter, r *http.Request) {
	if !s.Synced() {
		unavailable(w, "caches are not filled yet")
		return
	}
	if err := s.Ready(r.Context()); err != nil {
		s.Log.WithError(err).Debug("Not ready")
		unavailable(w, "not ready yet")
		return
	}
	text(w, "ok")
}

func text(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(body)) // fails only when the client has disconnected
}

func unavailable(w http.ResponseWriter, message string) {
	w.Header().Set("Retry-After", "5")
	http.Error(w, message, http.StatusServiceUnavailable)
}

// baseURL is the server's URL for machines: the configured one, or that of the request.
func (s *server) baseURL(r *http.Request) string {
	if s.ServerURL != "" {
		return s.ServerURL
	}
	return "https://" + r.Host
}

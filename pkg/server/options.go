package server

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/prometheus/client_golang/prometheus"
	lassocontroller "github.com/rancher/lasso/pkg/controller"
	"github.com/sirupsen/logrus"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/drover-io/drover/pkg/controllers"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/redact"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/reach/connect"
	"github.com/drover-io/drover/pkg/reach/proxy"
	"github.com/drover-io/drover/pkg/releases"
)

// CAPIMode selects the Cluster API core.
type CAPIMode string

const (
	// CAPIExternal expects the core in the cluster. It is the default for a host that embeds Drover.
	CAPIExternal CAPIMode = "external"
	// CAPIEmbedded runs the core's controllers in this process.
	CAPIEmbedded CAPIMode = "embedded"
)

// CoreWrites selects how the embedded Cluster API core writes to the API server.
type CoreWrites string

const (
	// CoreWritesPlain is Cluster API's own way: it reconciles an object at most once a second, and sends each write. It
	// is the default.
	CoreWritesPlain CoreWrites = "plain"
	// CoreWritesThrifty drops applies that change nothing, and reconciles an object several times a second if its
	// caches show all own writes. It turns Cluster API's gate ReconcilerRateLimiting off for the whole process.
	CoreWritesThrifty CoreWrites = "thrifty"
)

// CRDMode selects the owner of the definitions of Drover's kinds.
type CRDMode string

const (
	// CRDsInstall installs missing definitions and upgrades Drover's own. It uses those of another product unchanged.
	CRDsInstall CRDMode = "install"
	// CRDsHost expects all definitions in the cluster and changes none.
	CRDsHost CRDMode = "host"
)

// AdmissionMode selects which program registers Drover's admission webhooks and policies with the API server.
type AdmissionMode string

const (
	// AdmissionOff registers nothing. AdmissionHandler still answers requests.
	AdmissionOff AdmissionMode = "off"
	// AdmissionInstall installs policies and webhook configurations.
	AdmissionInstall AdmissionMode = "install"
	// AdmissionHost expects the webhook configurations in the cluster, and writes the CA bundle of the webhooks into
	// them.
	AdmissionHost AdmissionMode = "host"
)

// Admission configures how the API server reaches the webhooks.
type Admission struct {
	// Mode is AdmissionOff when it is empty.
	Mode AdmissionMode
	// URL is the base of AdmissionPaths for the API server: https://HOST:PORT. Required with AdmissionInstall.
	URL string
	// CACerts are the PEM authorities that verify URL. Required unless Mode is AdmissionOff.
	CACerts string
}

// Settings are the server-wide settings.
type Settings = controllers.Settings

// Downstream reaches the clusters that Drover manages.
type Downstream = controllers.Downstream

// ErrNotAvailable is the error of a Downstream while a cluster cannot be reached yet.
var ErrNotAvailable = proxy.ErrNotAvailable

// NewScheme returns a scheme with all types that the scheme of a host's ControllerFactory needs. The host may add
// types.
func NewScheme() (*runtime.Scheme, error) { return clients.NewScheme() }

// Options configure a Server. The package documentation says more about each.
type Options struct {
	// RESTConfig reaches the management cluster. Required.
	RESTConfig *rest.Config
	// ControllerFactory is a host's own factory; nil makes one.
	ControllerFactory lassocontroller.SharedControllerFactory
	// InstanceID marks the Clusters that this Drover manages. Drover treats Clusters with another ID as foreign.
	// Required. It must be the same for all replicas and over restarts.
	InstanceID string
	// Version is the version of the program, for the user agent.
	Version string
	// Elected is closed when this replica may run the controllers. Nil: at once.
	Elected <-chan struct{}
	// CAPI selects the Cluster API core; CAPIExternal when it is empty.
	CAPI CAPIMode
	// CoreWrites selects how the core of CAPIEmbedded writes; CoreWritesPlain when it is empty.
	CoreWrites CoreWrites
	// CRDs selects the owner of the definitions; CRDsInstall when it is empty.
	CRDs CRDMode
	// Admission configures how the API server reaches the webhooks of AdmissionHandler.
	Admission Admission
	// Reach configures how users and agents reach clusters through Drover.
	Reach Reach
	// UI serves the web UI below UIPaths. Users sign in with a bearer token of the management cluster.
	UI bool
	// Limits bound what machines, tenants and clients may use of this replica.
	Limits Limits
	// Settings are server-wide.
	Settings Settings
	// Releases describes Kubernetes versions; the embedded table when it is nil.
	Releases *releases.Table
	// Downstream is a host's own connection to the clusters, such as a tunnel. Nil uses the kubeconfig from each
	// cluster's servers.
	Downstream Downstream
	// AgentBinary is the program that machines download as the node agent; this program when it is empty.
	AgentBinary string
	// AssetsDir holds files for /assets/ that take precedence over the built-in ones.
	AssetsDir string
	// StartTimeout is the time for definitions to be served and caches to be filled; two minutes when it is zero.
	StartTimeout time.Duration
	// Registerer gets the metrics; the process-wide one when it is nil.
	Registerer prometheus.Registerer
	// EventRecorder records Events about clusters and machines, on the replica that leads. Nil makes a rate-limited
	// one.
	EventRecorder record.EventRecorder
	// TracerProvider gets a trace of every machine that becomes ready; nil makes none. A provider of
	// tracing.NewProvider gives spans the same identifiers on all replicas.
	TracerProvider trace.TracerProvider
	// Log receives messages; the standard logger when it is nil.
	Log logrus.FieldLogger
}

const defaultStartTimeout = 2 * time.Minute

func (o Options) complete() (Options, error) {
	if o.CAPI == "" {
		o.CAPI = CAPIExternal
	}
	if o.CoreWrites == "" {
		o.CoreWrites = CoreWritesPlain
	}
	if o.CRDs == "" {
		o.CRDs = CRDsInstall
	}
	if o.Admission.Mode == "" {
		o.Admission.Mode = AdmissionOff
	}
	if o.StartTimeout == 0 {
		o.StartTimeout = defaultStartTimeout
	}
	if o.Log == nil {
		o.Log = logrus.StandardLogger()
	}
	if o.Releases == nil {
		table, err := releases.Embedded()
		if err != nil {
			return o, fmt.Errorf("read embedded release data: %w", err)
		}
		o.Releases = &table
	}
	o.Limits.complete()
	return o, o.check()
}

// agentVersion returns the version of the node agent, which is this program.
func (o Options) agentVersion() string { return cmp.Or(o.Version, "dev") }

// agentImage returns the image of the agent inside clusters, which has the same version as the server.
func (o Options) agentImage() string {
	return cmp.Or(o.Settings.ClusterAgentImage, "drover-io/drover:"+cmp.Or(o.Version, "dev"))
}

// installedAgent returns the image of the agents in clusters that Drover creates. It is empty if they get none: the
// host disables agents, has its own connection to clusters, or sets no address for agents to dial.
func (o Options) installedAgent() string {
	if o.Reach.WithoutAgents || o.Downstream != nil || o.Settings.ServerURL == "" {
		return ""
	}
	return o.agentImage()
}

// agentManifests returns the source of the manifests that install agents inside clusters.
func (o Options) agentManifests(clusters connect.ManagementClusters) *connect.AgentManifests {
	return &connect.AgentManifests{Clusters: clusters, Source: o.Settings.AgentSource(o.agentImage())}
}

func (o Options) check() error {
	var problems []error
	if o.RESTConfig == nil {
		problems = append(problems, errors.New("RESTConfig: is required; it reaches the management cluster"))
	}
	if o.InstanceID == "" {
		problems = append(problems,
			errors.New("InstanceID: is required; use the same text for all replicas and over restarts"))
	}
	problems = append(problems, o.checkModes()...)
	problems = append(problems, o.Admission.check()...)
	if _, err := name.ParseReference(o.agentImage(), name.WeakValidation); err != nil {
		problems = append(problems,
			fmt.Errorf("Settings.ClusterAgentImage: %q is not an image; use one such as drover-io/drover:v1.0.0",
				redact.Address(o.Settings.ClusterAgentImage)))
	}
	if registry := o.Settings.SystemDefaultRegistry; registry != "" && !naming.IsRegistry(registry) {
		problems = append(problems, fmt.Errorf("Settings.SystemDefaultRegistry: %q %s", redact.Address(registry),
			naming.RegistryForm))
	}
	if !naming.IsServerURL(o.Settings.ServerURL) {
		problems = append(problems, fmt.Errorf("Settings.ServerURL: %q %s", redact.Address(o.Settings.ServerURL),
			naming.ServerURLForm))
	}
	return errors.Join(problems...)
}

func (o Options) checkModes() []error {
	var problems []error
	if o.CAPI != CAPIExternal && o.CAPI != CAPIEmbedded {
		problems = append(problems, fmt.Errorf("CAPI: %q is unknown; use %q or %q", o.CAPI, CAPIEmbedded, CAPIExternal))
	}
	if o.CAPI == CAPIEmbedded && o.ControllerFactory != nil {
		problems = append(problems,
			fmt.Errorf("CAPI: %q cannot share the caches of a host's controller factory; use %q", CAPIEmbedded,
				CAPIExternal))
	}
	if o.CoreWrites != CoreWritesPlain && o.CoreWrites != CoreWritesThrifty {
		problems = append(problems, fmt.Errorf("CoreWrites: %q is unknown; use %q or %q", o.CoreWrites, CoreWritesPlain,
			CoreWritesThrifty))
	}
	if o.CoreWrites == CoreWritesThrifty && o.CAPI == CAPIExternal {
		problems = append(problems, fmt.Errorf("CoreWrites: %q has no effect on a core in another process; leave it "+
			"out, or set CAPI to %q", CoreWritesThrifty, CAPIEmbedded))
	}
	if o.CRDs != CRDsInstall && o.CRDs != CRDsHost {
		problems = append(problems, fmt.Errorf("CRDs: %q is unknown; use %q or %q", o.CRDs, CRDsInstall, CRDsHost))
	}
	return problems
}

func (a Admission) check() []error {
	switch a.Mode {
	case AdmissionOff:
		return nil
	case AdmissionInstall, AdmissionHost:
	default:
		return []error{fmt.Errorf("Admission.Mode: %q is unknown; use %q, %q or %q", a.Mode, AdmissionInstall,
			AdmissionHost, AdmissionOff)}
	}
	var problems []error
	if a.CACerts == "" {
		problems = append(problems,
			errors.New("Admission.CACerts: are required; the API server verifies the webhooks by them"))
	}
	if address, err := url.Parse(a.URL); a.Mode == AdmissionInstall &&
		(err != nil || address.Scheme != "https" || address.Host == "" || address.Path != "") {
		problems = append(problems,
			fmt.Errorf("Admission.URL: %q is not an address that the API server can reach; use https://HOST:PORT",
				a.URL))
	}
	return problems
}

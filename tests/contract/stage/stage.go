package stage

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/local/managementplane"
	"github.com/drover-io/drover/pkg/local/managementplane/pki"
	"github.com/drover-io/drover/pkg/server"
	"github.com/drover-io/drover/pkg/testkit/disruptions"
	"github.com/drover-io/drover/pkg/testkit/fakeagent"
	"github.com/drover-io/drover/pkg/testkit/memkube"
	"github.com/drover-io/drover/tests/contract/plane"
)

// DroverAgent is part of the user agents of Drover's clients, and of no others. In those of the embedded Cluster API,
// the program's name comes first and this text second.
const DroverAgent = "drover"

// Stage is a running Drover with a World of simulated machines.
type Stage struct {
	t     *testing.T
	log   *notebook
	plane *managementplane.Plane
	// ends are the functions that stop what runs, called in reverse order.
	ends []func()
	// settings are those with which Drover started. front is the address of its endpoints, and stop ends it.
	settings Settings
	front    *front
	stop     func()
	// address is the address of Server's endpoints as a string. It is unset if another program serves them.
	address *atomic.Value
	// Client is an administrator's client with the user agent contract-tests.
	Client client.Client
	// World simulates the machines.
	World *fakeagent.World
	// Server is Drover, unless Settings.Drover started it. URL is the address of its endpoints.
	Server *server.Server
	URL    string
}

// Settings configure a Stage.
type Settings struct {
	// CAPI selects the Cluster API core. The default is the one in Drover.
	CAPI server.CAPIMode
	// CoreWrites selects how that core writes. The default is DROVER_TEST_CORE_WRITES, or else that of drover server.
	CoreWrites server.CoreWrites
	// Providers are the API groups of other infrastructure providers, as the chart's value rbac.extraProviders has
	// them. The plane must have the controller that aggregates roles.
	Providers []string
	// Transport, if not nil, wraps the transport of Drover's clients.
	Transport func(http.RoundTripper) http.RoundTripper
	// Machines, if not nil, changes the behavior of machines.
	Machines func(*fakeagent.Options)
	// Admission makes the API server call Drover's admission webhooks.
	Admission bool
	// UI serves the web UI at URL.
	UI bool
	// ClusterAutoscalerImage is the server's setting of that name.
	ClusterAutoscalerImage string
	// Plane is the management plane. The default is that of the package.
	Plane *managementplane.Plane
	// World has machines whose objects were in another management plane, and has ended. If it is nil, there are no
	// machines yet.
	World *fakeagent.World
	// InstanceID marks the clusters of this Drover. If it is empty, all stages share one.
	InstanceID string
	// Drover starts Drover in another way than as a library, such as by its command line, until the test ends. It
	// returns when machines can use Drover. Server is nil then.
	Drover func(t *testing.T)
}

// Start runs Drover and the machines until the test ends, and registers the driver.
func Start(t *testing.T, s Settings) *Stage {
	t.Helper()
	if s.CAPI == "" {
		s.CAPI = server.CAPIEmbedded
	}
	if s.CAPI == server.CAPIEmbedded && s.CoreWrites == "" {
		s.CoreWrites = cmp.Or(server.CoreWrites(os.Getenv("DROVER_TEST_CORE_WRITES")), server.CoreWritesThrifty)
	}
	st := &Stage{t: t, log: newNotebook(t), plane: s.Plane, address: &atomic.Value{}}
	st.Client = newClient(t, st.Config("contract-tests"))
	st.startWorld(s)
	if s.Drover != nil {
		s.Drover(t)
	} else {
		st.startDrover(s)
	}
	st.registerDriver()
	return st
}

// Config returns an administrator's client configuration for the stage's management plane, like plane.Config.
func (st *Stage) Config(userAgent string) *rest.Config {
	st.t.Helper()
	if st.plane == nil {
		return plane.Config(st.t, userAgent)
	}
	config := st.plane.RESTConfig()
	config.UserAgent, config.QPS = userAgent, -1
	return config
}

// End ends Drover and the machines before the end of the test. Hosts continue without a Drover.
func (st *Stage) End() {
	for len(st.ends) > 0 {
		end := st.ends[len(st.ends)-1]
		st.ends = st.ends[:len(st.ends)-1]
		end()
	}
}

func newClient(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, provv1.AddToScheme, rkev1.AddToScheme,
		mgmtv3.AddToScheme, clusterv1.AddToScheme} {
		utilruntime.Must(add(scheme))
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (st *Stage) startWorld(s Settings) {
	st.t.Helper()
	opts := fakeagent.Options{
		Config: st.Config(fakeagent.Agent),
		API:    func() http.Handler { return memkube.New(memkube.Options{}) },
		Log:    st.log.Logf,
		Dial:   st.dial,
		// Jobs that ask drivers for their flags are played here, and download as their pods would.
		Authorities: string(vendor.CertPEM),
	}
	if s.Machines != nil {
		s.Machines(&opts)
	}
	world, err := fakeagent.New(opts)
	if s.World != nil {
		world, err = s.World.Under(opts.Config, st.dial)
	}
	if err != nil {
		st.t.Fatal(err)
	}
	st.World = world
	st.run("simulated machines", world.Run)
}

func (st *Stage) startDrover(s Settings) {
	st.t.Helper()
	if st.settings = s; st.front == nil {
		st.front = newFront(st.t)
	}
	endpoint, handler := st.front.server, st.front.handler
	log := logrus.New()
	log.SetOutput(st.log)
	registry := prometheus.NewRegistry()
	// This runs after Drover has ended, because cleanups run in reverse order.
	st.t.Cleanup(func() { disruptions.Check(st.t, registry) })
	admission, reviews := st.admission(s)
	config := st.account(s)
	if s.Transport != nil {
		config.Wrap(s.Transport)
	}
	drover, err := server.New(server.Options{
		Admission: admission, RESTConfig: config, InstanceID: cmp.Or(s.InstanceID, "contract"),
		Version: "contract", CAPI: s.CAPI, CoreWrites: s.CoreWrites, UI: s.UI,
		Log: log, Registerer: registry,
		Reach: server.Reach{AllowLoopback: true}, // of simulated machines
		Settings: server.Settings{
			ServerURL: endpoint.URL, CACerts: st.front.authority, MachineProvisionImage: "rancher/machine:test",
			MachineProvisionImagePullPolicy: "IfNotPresent",
			SystemAgentInstallerImage:       "rancher/system-agent-installer-",
			ClusterAutoscalerImage:          s.ClusterAutoscalerImage,
			BootstrapTokenTTL:               30 * time.Minute, DeletionDeadline: time.Minute,
		},
	})
	if err != nil {
		st.t.Fatal(err)
	}
	st.Server, st.URL = drover, endpoint.URL
	if reviews != nil {
		reviews.set(drover.AdmissionHandler())
	}
	handler.set(drover.Handler())
	st.address.Store(endpoint.Listener.Addr().String())
	end := st.run("drover", drover.Start)
	// Shut it first, so that a returning agent finds no server, as after the end of the process.
	st.ends = append(st.ends, handler.shut)
	st.stop = func() { handler.shut(); end() }
	plane.Until(st.t, time.Minute, func() string {
		if err := drover.Ready(); err != nil {
			return err.Error()
		}
		return ""
	})
}

// On returns the stage for a subtest, whose failures are then those of the subtest.
func (st *Stage) On(t *testing.T) *Stage {
	t.Helper()
	on := *st
	on.t = t
	return &on
}

// RestartDrover ends Drover and starts it again at the same address, as the restart of its pod does. The machines
// continue meanwhile.
func (st *Stage) RestartDrover() {
	st.t.Helper()
	st.stop()
	st.startDrover(st.settings)
}

// front is the address at which machines reach Drover. It outlives a restart.
type front struct {
	server  *httptest.Server
	handler *later
	// authority is the certificate authority of the address, in PEM.
	authority string
}

func newFront(t *testing.T) *front {
	t.Helper()
	handler := &later{}
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return &front{server: server, handler: handler, authority: string(authority)}
}

// account returns the client configuration for Drover. It is the chart's account, with the chart's rights. A Drover
// that installs its own webhooks is an administrator, because the chart's account may not do that.
func (st *Stage) account(s Settings) *rest.Config {
	st.t.Helper()
	if s.Admission {
		return st.Config("")
	}
	return chartAccount(st.t, cmp.Or(st.plane, plane.Running(st.t)), s.CAPI, s.Providers)
}

// dial connects cluster agents to Server, whatever the address of its predecessor, or to the address in their manifest.
func (st *Stage) dial(ctx context.Context, address string) (net.Conn, error) {
	if known, ok := st.address.Load().(string); ok {
		address = known
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", address)
}

// later is a handler that is set after its address is known.
type later struct{ handler atomic.Pointer[http.Handler] }

func (l *later) set(handler http.Handler) { l.handler.Store(&handler) }

// shut clears the handler.
func (l *later) shut() { l.handler.Store(nil) }

func (l *later) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if handler := l.handler.Load(); handler != nil {
		(*handler).ServeHTTP(w, r)
		return
	}
	http.Error(w, "not ready yet", http.StatusServiceUnavailable)
}

// admission opens the address of the webhooks. It returns nil if there are none.
func (st *Stage) admission(s Settings) (server.Admission, *later) {
	if !s.Admission {
		return server.Admission{}, nil
	}
	handler := &later{}
	reviews := httptest.NewTLSServer(handler)
	st.t.Cleanup(reviews.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: reviews.Certificate().Raw})
	return server.Admission{Mode: server.AdmissionInstall, URL: reviews.URL, CACerts: string(ca)}, handler
}

// run runs a function until the test ends, and then waits for its end. The result ends it earlier.
func (st *Stage) run(name string, run func(context.Context) error) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(st.t.Context()))
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	end = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				st.t.Errorf("%s has ended: %v", name, err)
			}
		case <-time.After(30 * time.Second):
			st.t.Errorf("%s did not end within 30 s", name)
		}
	})
	st.ends = append(st.ends, end)
	st.t.Cleanup(end)
	return end
}

// driverProgram is the built plugin. vendor is the authority of the server where it is downloaded.
var (
	driverProgram string
	vendor        *pki.Authority
)

// buildDriver builds the plugin of the driver `sim` into a directory.
func buildDriver(ctx context.Context, dir string) error {
	driverProgram = filepath.Join(dir, "docker-machine-driver-sim")
	build := exec.CommandContext(ctx, "go", "build", "-o", driverProgram,
		"github.com/drover-io/drover/tests/contract/simdriver")
	build.Stderr = os.Stderr
	return build.Run()
}

// host returns the host of the API server's address, at which Drover also reaches this process.
func (st *Stage) host() string {
	st.t.Helper()
	api, err := url.Parse(st.Config("").Host)
	if err != nil {
		st.t.Fatal(err)
	}
	return api.Hostname()
}

// registerDriver creates the NodeDriver with URL and checksum, as an administrator does for a third-party driver, and
// waits until its kinds are served.
func (st *Stage) registerDriver() {
	st.t.Helper()
	program, err := os.ReadFile(driverProgram)
	if err != nil {
		st.t.Fatal(err)
	}
	download := httptest.NewUnstartedServer(http.FileServer(http.Dir(filepath.Dir(driverProgram))))
	download.Listener.Close()
	if download.Listener, err = (&net.ListenConfig{}).Listen(st.t.Context(), "tcp", st.host()+":0"); err != nil {
		st.t.Fatal(err)
	}
	pair, err := vendor.Serving("vendor-"+st.host(), st.host())
	if err != nil {
		st.t.Fatal(err)
	}
	certificate, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
	if err != nil {
		st.t.Fatal(err)
	}
	download.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	download.StartTLS()
	st.t.Cleanup(download.Close)
	sum := sha256.Sum256(program)
	driver := &mgmtv3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: "sim"}}
	_, err = createOrUpdate(st, driver, func() {
		driver.Spec = mgmtv3.NodeDriverSpec{
			Active: true, DisplayName: "sim", URL: download.URL + "/" + filepath.Base(driverProgram),
			Checksum: hex.EncodeToString(sum[:]),
		}
	})
	if err != nil {
		st.t.Fatal(err)
	}
	st.AwaitKinds(simConfig+" SimConfig", "rke-machine.cattle.io/v1 SimMachine",
		"rke-machine.cattle.io/v1 SimMachineTemplate")
}

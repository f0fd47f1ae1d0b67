package cmd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/pkg/kube/logs"
	"github.com/drover-io/drover/pkg/observe/metrics"
	"github.com/drover-io/drover/pkg/observe/tracing"
	"github.com/drover-io/drover/pkg/releases"
	"github.com/drover-io/drover/pkg/server"
)

func newServerCommand(environ []string) *cobra.Command {
	o := &serverOptions{}
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run the Drover server",
		Long: `Run the Drover server against a management cluster. With --embedded, the server also starts its own
management plane.

Each setting comes from the first of these sources that has it:

  1. its flag
  2. the environment: DROVER_ and the flag's name in upper case with underscores, such as
     DROVER_SERVER_URL
  3. the file that --config names`,
		Example: `  # run a management plane and Drover here, with data in ./data; machines use this host's address
  drover server --embedded --data-dir ./data

  # run Drover against a management cluster
  drover server --kubeconfig ~/.kube/config --server-url https://drover.example.com`,
		Args:    takes(),
		PreRunE: func(cmd *cobra.Command, _ []string) error { return complete(cmd, environ) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := logs.New(cmd.ErrOrStderr(), o.logFormat, o.logLevel)
			if err != nil {
				return err
			}
			logs.Libraries(log) // the program owns the process-wide loggers
			countClustersTogether()
			limitMemory(log, memlimit.FromCgroup)
			ctx, stop := context.WithCancel(cmd.Context())
			defer stop()
			go returnMemory(ctx, readHeap, debug.FreeOSMemory)
			o.settings.ProxyEnv = proxyEnvironment(environ)
			err = runServer(ctx, o, log)
			if err != nil && o.logFormat == logs.FormatJSON {
				log.WithError(err).Error("Drover ends with an error")
				cmd.SilenceErrors = true // the error is in the log, where every line is JSON
			}
			return err
		},
	}
	o.addFlags(cmd.Flags())
	for flag, values := range map[string][]string{
		"admission": {"install", "host", "off"}, "capi": capiModes, "core-writes": coreWrites, "crds": crdModes,
		"log-level": {"debug", "info", "warning", "error"}, "log-format": {logs.FormatText, logs.FormatJSON},
		"machine-provision-image-pull-policy": pullPolicies, "registration-commands": commandPlaces,
		"agent-upgrades": agentUpgrades,
	} {
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	return cmd
}

// proxyEnvironment returns the proxy settings that machine jobs inherit.
func proxyEnvironment(environ []string) map[string]string {
	proxy := map[string]string{}
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		switch name {
		case "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY":
			proxy[name] = value
		}
	}
	return proxy
}

// runServer runs everything until ctx ends or a fatal error occurs.
func runServer(ctx context.Context, o *serverOptions, log *logrus.Logger) error {
	if err := o.check(); err != nil {
		return err
	}
	o.chooseServerURL(ctx, log)
	config, stopPlane, err := o.managementCluster(ctx, log)
	if err != nil {
		return err
	}
	defer stopPlane()
	removeDrivers(o.dataDir, log)
	certificate, err := o.certificate(ctx, config, log)
	if err != nil {
		return err
	}
	if err := metrics.NewServingCertificate(nil, func() time.Time { return notAfter(certificate) }); err != nil {
		return err
	}
	options, err := o.serverOptions(ctx, config, log)
	if err != nil {
		return err
	}
	stopTraces, err := o.traces(ctx, &options)
	if err != nil {
		return err
	}
	defer stopTraces()
	reviews, err := o.admissionCertificate(ctx, config, log, &options)
	if err != nil {
		return err
	}
	follow, err := o.reach(config, certificate, log, &options)
	if err != nil {
		return err
	}
	following, stopFollowing := context.WithCancel(ctx)
	var followed sync.WaitGroup
	followed.Go(func() { follow(following) })
	defer followed.Wait()
	defer stopFollowing()
	s, err := server.New(options)
	if err != nil {
		return err
	}
	return o.serveAll(ctx, log, s, certificate, reviews, func(ctx context.Context) error {
		if o.embedded || !o.leaderElect {
			return leadTerms(ctx, log, func() error { return s.Lead(ctx) })
		}
		return leadWhileHolding(ctx, config, options.InstanceID, log, s.Lead)
	})
}

// serveAll serves machines, health checks and admission webhooks, and leads, until ctx ends or one of them fails. It
// serves webhooks only with a certificate for them. At the end it releases the lease at once. The endpoints continue to
// serve until machines have moved to other replicas.
func (o *serverOptions) serveAll(ctx context.Context, log logrus.FieldLogger, s *server.Server,
	certificate, reviews *tls.Config, lead func(context.Context) error) error {
	told := ctx
	group, ctx := errgroup.WithContext(told)
	machines, err := limited(ctx, log, listening{"machines", net.JoinHostPort(o.bindAddress, strconv.Itoa(o.port)),
		o.connections(log)}, &http.Server{Handler: s.Handler(), TLSConfig: certificate})
	if err != nil {
		return fmt.Errorf("listen for machines: %w", err)
	}
	operators, err := o.operatorEndpoints(ctx, log, s)
	if err != nil {
		return err
	}
	// The endpoints' caches and the readiness state must exist until the last request is answered.
	serving, endServing := context.WithCancel(context.WithoutCancel(ctx))
	defer endServing()
	endpoints := []endpoint{machines}
	if reviews != nil {
		admission, err := limited(ctx, log, listening{"admission", o.admissionAddress, otherConnections},
			&http.Server{Handler: s.AdmissionHandler(), TLSConfig: reviews})
		if err != nil {
			return fmt.Errorf(
				"listen for admission reviews: %w; --admission-address sets the address, --admission=off disables "+
					"the webhooks", err)
		}
		endpoints = append(endpoints, admission)
	}
	group.Go(func() error {
		defer endServing()
		return serveTogether(ctx, endpoints, func() { s.Drain(serving, o.drainFor()) })
	})
	group.Go(func() error { return serveTogether(serving, operators, func() {}) })
	group.Go(func() error {
		if err := s.Serve(serving); err != nil {
			return err
		}
		return lead(ctx)
	})
	err = group.Wait()
	if told.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // ctx ended, and so did the work in progress
	}
	return err
}

// operatorEndpoints returns the endpoints for operators: health, metrics and, if enabled, profiles.
func (o *serverOptions) operatorEndpoints(ctx context.Context, log logrus.FieldLogger, s *server.Server) ([]endpoint,
	error) {
	health, err := limited(ctx, log, listening{"health", o.healthAddress, otherConnections},
		&http.Server{Handler: healthHandler(s)})
	if err != nil {
		return nil, fmt.Errorf("listen for health checks: %w", err)
	}
	if o.profilerAddress == "" {
		return []endpoint{health}, nil
	}
	profiler, err := limited(ctx, log, listening{"profiler", o.profilerAddress, otherConnections},
		&http.Server{Handler: profilerHandler()})
	if err != nil {
		return nil, fmt.Errorf("listen for the profiler: %w; --profiler-address sets the address", err)
	}
	profiler.server.WriteTimeout = 0 // a profile takes as long as its client asks for
	return []endpoint{health, profiler}, nil
}

// drainFor is how long the endpoints continue to serve during a shutdown. With an embedded management plane there is no
// other replica.
func (o *serverOptions) drainFor() time.Duration {
	if o.embedded {
		return 0
	}
	return o.shutdownDelay
}

// traces sends traces of machines to --tracing-endpoint. stop sends the rest.
func (o *serverOptions) traces(ctx context.Context, options *server.Options) (stop func(), err error) {
	if o.tracingEndpoint == "" {
		return func() {}, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name this replica in traces: %w", err)
	}
	provider, err := tracing.NewProvider(ctx, o.tracingEndpoint, Version, host)
	if err != nil {
		return nil, err
	}
	options.TracerProvider = provider
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			options.Log.WithError(err).Warn("Cannot send the last traces")
		}
	}, nil
}

// serverOptions converts flags to the options of package server.
func (o *serverOptions) serverOptions(ctx context.Context, config *rest.Config, log *logrus.Logger) (server.Options,
	error) {
	table, err := releases.Load(ctx, o.releaseData, releases.FromFileOrURL(&http.Client{Timeout: 30 * time.Second}))
	if err != nil {
		return server.Options{}, fmt.Errorf("--release-data: %w", err)
	}
	if o.instanceID == "" {
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return server.Options{}, fmt.Errorf("client of the management cluster: %w", err)
		}
		if o.instanceID, err = clusterIdentity(ctx, client); err != nil {
			return server.Options{}, err
		}
	}
	return server.Options{
		RESTConfig: config, InstanceID: o.instanceID, Version: Version, CAPI: server.CAPIMode(o.capi),
		CoreWrites: o.wayOfCore(), CRDs: server.CRDMode(o.crds),
		Settings: o.settings, Releases: &table, AgentBinary: o.agentBinary, AssetsDir: o.assetsDir,
		Log: log, UI: o.ui,
		Reach: server.Reach{Verb: o.clusterAccessVerb, EndpointTokenLife: o.endpointTokenLife,
			AllowLoopback: o.embedded || o.allowLoopback},
		Limits: o.limits,
	}, nil
}

// wayOfCore is how Cluster API's core writes. No other controller of this program needs Cluster API's gate.
func (o *serverOptions) wayOfCore() server.CoreWrites {
	if o.coreWrites == "" && o.capi == string(server.CAPIEmbedded) {
		return server.CoreWritesThrifty
	}
	return server.CoreWrites(o.coreWrites)
}

// removeDrivers deletes the node drivers that earlier versions kept in the data directory.
func removeDrivers(dataDir string, log logrus.FieldLogger) {
	if err := os.RemoveAll(filepath.Join(dataDir, "machine-drivers")); err != nil {
		log.WithError(err).Warn("Cannot delete the node drivers of an earlier version")
	}
}

// clusterIdentity is the UID of namespace kube-system, which programs use as a cluster's identity.
func clusterIdentity(ctx context.Context, client kubernetes.Interface) (string, error) {
	namespace, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("read the identity of the management cluster; set --instance-id to replace it: %w", err)
	}
	return string(namespace.UID), nil
}

// managementCluster returns the configuration for the management cluster and the function that stops it. It starts the
// management plane if it is embedded.
func (o *serverOptions) managementCluster(ctx context.Context, log *logrus.Logger) (*rest.Config, func(), error) {
	if o.embedded {
		return o.startPlane(ctx, log)
	}
	config, err := findManagement(o.kubeconfig, "", "--kubeconfig, or --embedded to start one here")
	return config, func() {}, err
}

// shutdownGrace limits the time for requests in progress. The chart depends on it (drover.timeToEnd), and on the other
// time limits of a shutdown.
const shutdownGrace = 10 * time.Second

// serveTogether serves several endpoints until ctx ends or one fails. It returns after the last request is answered.
func serveTogether(ctx context.Context, endpoints []endpoint, drain func()) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, e := range endpoints {
		group.Go(func() error { return serve(ctx, e.server, e.listener, drain) })
	}
	return group.Wait()
}

// serve serves until ctx ends, then drains, and waits for requests in progress.
func serve(ctx context.Context, s *http.Server, listener net.Listener, drain func()) error {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		drain()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
		defer cancel()
		if s.Shutdown(grace) != nil {
			_ = s.Close()
		}
	})
	var err error
	if s.TLSConfig != nil {
		err = s.ServeTLS(listener, "", "")
	} else {
		err = s.Serve(listener)
	}
	if !stop() {
		<-done
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve %s: %w", listener.Addr(), err)
}

// The returned program is in the folder of this one.
func siblingProgram(name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the path of this program: %w", err)
	}
	return filepath.Join(filepath.Dir(self), name), nil
}

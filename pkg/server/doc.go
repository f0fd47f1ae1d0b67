// Package server is Drover as a library. The command "drover server" is a thin layer over it. A larger server embeds
// it.
//
//	s, err := server.New(server.Options{
//		RESTConfig: config, InstanceID: "…", Elected: elected, Settings: …,
//	})
//	for _, path := range server.Paths() {
//		mux.Handle(path, s.Handler())   // endpoints for machines, on the host's own mux, with the host's own TLS
//	}
//	// Only the API server may reach this handler; server.AdmissionPaths lists what to route.
//	internal.Handle("/admission/", s.AdmissionHandler())
//	err = s.Start(ctx)                      // until ctx ends
//
// docs/examples/embed is a complete host. docs/stability.md lists which parts of this package are stable.
//
// # What the server owns, and what the host owns
//
// The server owns a scheme, its clients, and a lasso controller factory with its caches, unless the host lends its own.
// It also owns the goroutines that Serve, Lead and Start begin and end. In the management cluster it owns:
//
//   - the definitions of its kinds
//   - the namespaces fleet-default, drover-system and cattle-global-data
//   - the ConfigMap of its settings in drover-system
//   - everything it creates for Clusters that carry its mark
//
// The host owns leases, signals, flags, environment variables, feature gates, listeners and the end of the process. The
// server sets no process-wide logger or scheme. Drover cannot avoid these exceptions:
//
//   - With CAPIEmbedded, Cluster API's controllers use the process-wide metrics and feature gates of controller-runtime
//     and Cluster API.
//   - Every program that links controller-runtime has a flag kubeconfig in the process-wide set of package flag. A host
//     with a flag of this name needs its own FlagSet, or pflag.
//   - Without Options.Registerer, metrics go to Prometheus' process-wide registerer.
//
// # Options
//
// RESTConfig, InstanceID and Settings.ServerURL are required. New reports all missing and invalid options
// together, each by its name. It does not call the API.
//
//   - RESTConfig: the management cluster, with the rights of charts/drover (files/rights.yaml). The server copies it,
//     and sets user agent and limits on the copy.
//   - InstanceID: the mark of the Clusters that this Drover manages (annotation drover.io/instance). Drover only
//     observes Clusters with another mark, so several hosts can share a management cluster. The mark is stored: never
//     change it.
//   - Settings: the settings that plans depend on. ServerURL is written into every machine and must not change.
//     BootstrapTokenTTL is 30 minutes in the command line. Zero keeps each token until its machine is a node.
//   - Elected, and Lead: when the controllers run, see below.
//   - CAPI: CAPIExternal, the default, expects Cluster API's core and its definitions in the cluster. CAPIEmbedded
//     provides both.
//   - CoreWrites: how the core of CAPIEmbedded writes. CoreWritesThrifty turns Cluster API's gate
//     ReconcilerRateLimiting off for the whole process while the core runs. A host whose own controllers use Cluster
//     API's library keeps CoreWritesPlain, because the gate also makes them wait for their caches.
//   - CRDs: CRDsInstall, the default, installs and upgrades Drover's definitions. It leaves those of another product,
//     or of a newer Drover, unchanged. CRDsHost changes none, and a missing definition is an error.
//   - Admission: how the webhooks of AdmissionHandler are registered with the API server. AdmissionOff, the default,
//     registers none. With AdmissionInstall this Server registers them. With AdmissionHost the host has installed them,
//     for example with the chart.
//   - ControllerFactory: the host's own factory, see below. Its caches are the host's, and Limits.CachedSecretBytes does
//     not apply to them.
//   - Downstream: the host's own connection to the clusters that Drover manages, such as its tunnel. Nil uses the
//     kubeconfig from each cluster's servers. It returns ErrNotAvailable while a cluster cannot be reached yet.
//   - AgentBinary, AssetsDir: what machines download as their node agent. Without both it is the running program, which
//     must then act as the agent when it is started as rancher-system-agent. Drover's own main does that. Most hosts
//     set AgentBinary to a drover program.
//   - Releases: facts about Kubernetes versions (package releases). Nil uses those of this build.
//   - Registerer, Log: the destinations of metrics and messages. Several Servers of one process may share a registerer.
//   - EventRecorder: the destination of Events. Nil creates a rate-limited recorder.
//   - TracerProvider: receives a trace of every machine that becomes ready. Nil creates none.
//   - StartTimeout: the time for definitions to be served and caches to be filled. After it Serve and Lead fail.
//   - Version: for the user agent.
//
// # Replicas and terms
//
// The server has two halves. The endpoints run on every replica from Serve on. Behind any load balancer that passes TLS
// through, each replica can answer every machine. The controllers run on one replica.
//
// The simple way is Start. It serves at once, leads when Elected is closed (nil: at once), and returns when ctx ends. A
// channel closes only once, so a host that loses its lease ends ctx, and usually its process.
//
// A host that continues without its lease calls Serve once, and Lead for every term, with a context that ends with the
// lease. Lead returns after the handlers of the term have returned. Release the lease only then, and two replicas never
// act at the same time. Between terms the endpoints keep running. Leading reports whether the controllers run here, and
// Ready whether the endpoints have their caches.
//
// # Shutdown
//
// To stop a server, end ctx. Running handlers finish their write. Lead and Start then return nil. A host that wants a
// shutdown without an effect on machines does this:
//
//   - release the lease
//   - call Drain
//   - call http.Server.Shutdown
//   - end the context of Serve, because until then the endpoints answer from current caches
//
// Agents retry with another replica. A Server cannot be started a second time.
//
// # Listeners
//
// The host owns its listeners, and protects them from clients that are slow, or too many. Harden sets the limits that
// "drover server" has. A host with limits of its own needs a WriteTimeout of more than the 45 seconds for which a
// machine waits for its connection. Requests that may take longer set their own deadlines through
// http.ResponseController. So middleware of the host must have Unwrap, as http.ResponseController requires.
//
// Limits.Connections has no effect in a host. It limits the connections of its listeners itself.
//
// # Scheme and factory
//
// wrangler's generated code has one scheme for the whole process, in which a host may register its own types for the
// same kinds. Drover does not use that scheme, so there is no conflict. A host that lends its ControllerFactory shares
// its caches, and saves memory and watches. Its scheme must have Drover's Go types, like that of NewScheme. New checks
// all kinds and names each kind with another type.
//
// Drover shares the kinds that the host's factory already runs. It starts the others, which run until the context of
// Serve, or Start, ends. Drover removes the handlers of a term when the term ends. CAPIEmbedded has its own caches and
// excludes a host's factory.
package server

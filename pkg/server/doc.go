// Package server is Drover as a library: the command "drover server" is a thin layer over it, and a larger server embeds it.
//
//	s, err := server.New(server.Options{RESTConfig: config, InstanceID: "…", DataDir: "…", Elected: elected, Settings: …})
//	for _, path := range server.Paths() {
//		mux.Handle(path, s.Handler())   // endpoints for machines, on the host's own mux, with the host's own TLS
//	}
//	internal.Handle("/admission/", s.AdmissionHandler()) // where only the API server gets to; server.AdmissionPaths lists what to route
//	err = s.Start(ctx)                      // until ctx ends
//
// docs/examples/embed is a complete host, docs/stability.md says what of this package stays as it is.
//
// # What it owns, and what it leaves to its host
//
// It owns a scheme, a lasso controller factory with its caches (unless the host lends its own), its clients, and the goroutines that
// Serve, Lead and Start begin and end. In the management cluster it owns what carries its mark: definitions of its kinds, the namespaces
// fleet-default, drover-system and cattle-global-data, the ConfigMap of its settings in drover-system, and everything it makes of Clusters.
//
// It takes no lease, handles no signal, reads no flag, environment or feature gate, listens at no port, ends no process and sets no
// process-wide logger or scheme. All of these are the host's. Exceptions that are not ours to avoid: with CAPIEmbedded, Cluster API's
// controllers use the process-wide metrics and feature gates of controller-runtime and Cluster API; and controller-runtime, wherever it is
// linked, puts a flag kubeconfig into the process-wide set of package flag, so that a host with a flag of this name needs a FlagSet of its own,
// or pflag. Without Options.Registerer metrics go to Prometheus' process-wide registerer.
//
// # Options
//
// Required are RESTConfig, InstanceID, DataDir and Settings.ServerURL. New reports all that is missing or wrong at once, each by its
// name, and calls no API.
//
//   - RESTConfig: the management cluster, with rights as in charts/drover (files/rights.yaml). It is copied; user agent and limits are set on the copy.
//   - InstanceID: the mark of the Clusters that this Drover manages (annotation drover.io/instance). Clusters with another mark are only
//     observed, so hosts that share a management cluster do not fight. It is stored: keep it for ever.
//   - DataDir: a cache of node drivers. It may be empty at each start.
//   - Settings: what plans depend on. ServerURL is written into every machine and must not change. BootstrapTokenTTL is 30 minutes in the
//     command line; zero keeps tokens until their machine is a node.
//   - Elected, and Lead: when the controllers run, see below.
//   - CAPI: CAPIExternal, the default, expects Cluster API's core and its definitions in the cluster. CAPIEmbedded brings both.
//   - CRDs: CRDsInstall, the default, installs and upgrades Drover's own definitions, and leaves alone those that another product manages or
//     a newer Drover has written. With CRDsHost it changes none, and one that is missing is an error.
//   - Admission: who makes the API server ask the webhooks of AdmissionHandler: nobody (AdmissionOff, the default), this Server
//     (AdmissionInstall), or what its host installed, such as the chart's objects (AdmissionHost).
//   - ControllerFactory: a host's own factory, see below.
//   - Downstream: a host's own way to the clusters that Drover manages, such as its tunnel. Nil takes the kubeconfig that each cluster's
//     servers gave. It returns ErrNotAvailable for a cluster that cannot be reached yet.
//   - AgentBinary, AssetsDir: what machines download as their node agent. Without both it is the running program, which then has to answer as
//     the agent when it is started as rancher-system-agent, as Drover's own main does. Most hosts set AgentBinary to a drover program.
//   - Releases: facts about Kubernetes versions (package releases); nil takes those of this build.
//   - Registerer, Log: where metrics and messages go. Several Servers of one process may share a registerer.
//   - EventRecorder: where Events go; nil makes a recorder that limits itself. TracerProvider: gets a trace of every machine that becomes
//     ready; nil makes none.
//   - StartTimeout: how long definitions may take to be served and caches to be filled, until Serve and Lead give up.
//   - Version: for the user agent.
//
// # Replicas and terms
//
// Two halves run apart. The endpoints run on every replica from Serve on: behind any load balancer that passes TLS through, each answers every
// machine. The controllers run on one replica.
//
// The simple way is Start: it serves at once, leads when Elected is closed (nil: at once), and returns when ctx ends. A channel closes
// once, so a host that loses its lease ends ctx, and mostly its process.
//
// A host that goes on without its lease calls Serve once, and Lead for every term with a context that ends with the lease. Lead returns when
// the handlers of the term have returned, not before: give the lease back only then, and two replicas never act at the same time. Between
// terms the endpoints go on. Leading tells which it is, Ready whether the endpoints have their caches.
//
// # Shutdown
//
// Ending ctx is all that has to be done. Handlers under way finish their write; Lead and Start return when they have, and their error is
// nil. A host that does not want machines to notice gives its lease back first, calls Drain, then http.Server.Shutdown, and ends the context
// of Serve last: until then the endpoints answer from caches that are current. Agents try again with another replica. A Server is not
// started a second time.
//
// # Scheme and factory
//
// wrangler's generated code has one scheme for the whole process, in which a host may have types of its own for the same kinds. Drover does
// not use it: neither disturbs the other. A host that lends its ControllerFactory shares its caches, and saves memory and watches; its scheme
// must have Drover's Go types, as that of NewScheme. New checks all kinds and names each that has another type. Kinds that the host's factory runs already
// are shared; others start with Drover and run until the context of Serve, or Start, ends. Handlers of a term are taken out at its end.
// CAPIEmbedded brings caches of its own and excludes a host's factory.
package server

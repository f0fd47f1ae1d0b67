// Package pkg is the map of Drover. It contains no code.
//
// # What happens to a Cluster
//
//	provisioning.cattle.io Cluster            (a user applies it)
//	   │ controllers/provisioningcluster      claims it, gives it an id, and translates it
//	   │                                      ── topology.Management, topology.Desired ──►
//	   ├─► management.cattle.io Cluster c-m-…, its namespace, registration tokens
//	   │      controllers/provisioninglog: each message of the Cluster ──► ConfigMap provisioning-log
//	   ├─► RKECluster, RKEControlPlane, CAPI Cluster, RKEBootstrapTemplate, a Secret for Pod Security
//	   └─► per pool: <Driver>MachineTemplate, MachineDeployment, MachineHealthCheck
//	          │ Cluster API (kube/capi, or an installed core) makes per machine:
//	          ├─► Machine
//	          ├─► RKEBootstrap                controllers/bootstrap: service account, plan Secret, bootstrap data
//	          └─► <Driver>Machine             controllers/machineprovision: machinejob ──► Job ──► rancher-machine ──► the host
//	                 │ the install script on the host gets its identity from reach/connect, and starts the node agent
//	                 │ (an existing host uses a registration token: Secret (machine request) ─ controllers/unmanaged ─►
//	                 │ RKEBootstrap, CustomMachine, Machine)
//	                 ▼
//	              plan Secret ◄── controllers/planner: planner.Decide(Snapshot) ──► plans, conditions
//	                 │               planner/render: one machine's plan
//	                 ▼
//	              node agent (agent): files, instructions, probes; reports into the same Secret
//	                 │ controllers/machinedrain: drains a node before its restart, when the planner requests that
//	                 │ controllers/plansecret, controllers/machinenodelookup: what the node says ──► Machine conditions, provider ID
//	                 ▼
//	              Kubernetes answers; controllers/cluster writes <cluster>-kubeconfig; Ready
//	                 ▼
//	              controllers/fleetcluster: the Fleet Cluster, in the workspace that controllers/fleetworkspace keeps
//	              controllers/autoscaler: the account of the autoscaler, and with an image the program in the cluster
//
// The kinds of machines come from drivers: NodeDriver ─ controllers/nodedriver ─► DynamicSchema ─
// controllers/dynamicschema (driverschema) ─► the CRDs <Driver>Config, <Driver>Machine, <Driver>MachineTemplate.
//
// Metrics are computed from the same caches when Prometheus reads them. Events report changes to users, and traces show
// where the time goes; package server observes each change once for all three.
//
// # Vocabulary
//
//	Cluster           what the user applies (provisioning.cattle.io/v1)
//	management Cluster its identity inside Drover (management.cattle.io/v3, c-m-…)
//	CAPI Cluster      the same cluster for Cluster API (cluster.x-k8s.io/v1beta2)
//	control plane     RKEControlPlane: the cluster's configuration, and the planner's memory in its status
//	pool              machines of one kind: one MachineDeployment
//	machine           CAPI Machine; its two halves are the infra machine (<Driver>Machine) and the RKEBootstrap
//	role              etcd, control plane, worker; a machine has one or more
//	init node         the etcd machine that starts the cluster; all others join
//	plan              the desired state of one node: files, instructions, probes
//	plan Secret       holds a plan, and the report of the node's agent
//	snapshot          the input of one decision, as a value (not an etcd snapshot)
//	decision          what to do, in order, and what the cluster waits for
//	operation         a snapshot, a restore or a rotation: requested in the spec, carried out by the planner step by step
//	ticket            a disruptive effect, announced in status before it happens
//	render version    how plans are made; each machine is pinned to one, and a command moves it
//	stage             API on which controllers write nothing; it lists what they would write
//	as found          the render version of a machine whose plan another manager made; Drover keeps that plan until a user requests a change
//	mark              the identifier of the managing instance on a Cluster; Drover writes nothing to a Cluster without its own mark
//	cause             the request behind a restart, drain or replacement; counted, and never unknown
//	apply set         children of one owner, kept equal to the desired state
//	copy              a Secret or ConfigMap in a cluster that follows one next to its Cluster (controllers/clustersync)
//	registration      a ClusterRegistrationToken: the credential of the agent inside a cluster, or of a host; each token is for one of them
//	identity          the permanent name that a registering host chooses for itself: rke.cattle.io/machine-id; one Machine has it
//	machine request   the Secret by which a host requests a machine, for a minute; labels or an annotation on it are the answer
//	Fleet Cluster     the same cluster for Fleet (fleet.cattle.io/v1alpha1), if Fleet is installed
//	workspace         the namespace of a Fleet Cluster; a FleetWorkspace names it
//	tenant            a namespace; references of a Cluster to other namespaces are granted or offered (tenancy, docs/security.md)
//	wake-up           the event on another object that queues an object
//
// # What wakes what
//
// Events of its own object queue a handler, and events of the objects that the package comment of its controller lists
// ("Woken by"). Nothing else does: a handler that waits for another kind must watch it. wakeups_test.go compares the
// comments with the code.
//
// # Rooms
//
// Packages stand in rooms. imports_test.go says which room may import which, and fails when a package imports another
// one.
//
//	apis, generated, crds  types, typed clients and CRDs: promised to others (docs/stability.md)
//	releases               facts about Kubernetes versions: promised to others
//	decide/                pure decisions: values in, values out; no client, clock or logger
//	kube/                  the management API: clients, apply sets, wake-ups, plan Secrets, Cluster API's core
//	admission/             what the API server refuses or fills in
//	observe/               metrics, Events and traces
//	reach/                 connections: endpoints for machines, tunnel, proxy, the agent inside a cluster
//	agent/                 the node agent
//	controllers/           one folder for each object that Drover owns
//	operate/               what an operator asks for: status, explain, preview, diagnose, adopt, back up
//	ui/                    the web UI: its API and its built pages, with the rights of each caller
//	server/                the embedding API
//	cmd/                   flags and environment
//	local/                 what runs on one machine or in one pod only: the embedded management plane and its programs
//	testkit/               builders, an in-memory API server and played agents, for tests
//
// Every handler gathers (caches only), decides (a pure function), acts (in order, idempotent) and reports (one status
// write).
//
// # Where to start
//
//   - server: what runs, and how a larger program embeds it; docs/examples/embed is such a program
//   - controllers/rkecluster: the smallest handler, all four verbs on one screen
//   - decide/planner: the ordered steps, and testdata that reads as a story
//   - decide/snapshots: which ETCDSnapshots a cluster has
//   - decide/registration, decide/clustermanifest: the tokens of a cluster's agent, and the manifest that installs it
//   - kube/applyset: why the framework is wrapped
//   - kube/rehearsal: controllers that write nothing, and list what they would write
//   - kube/sharedfields: managed fields that cached objects share, which saves memory
//   - kube/rival: which other instance may manage the same clusters
//   - controllers/credential: the permissions of the creator of a cloud credential
//   - decide/credentialjob, controllers/credentialcheck: whether a cloud accepts a credential
//   - controllers/machineconfig: which unused machine configs are deleted
//   - admission: what the API server refuses before any controller sees it
//   - reach/tunnel, reach/clusterproxy, reach/clusteragent: how clusters without an incoming connection are reached (docs/reach.md)
//   - decide/fleet, controllers/managedchart: a ManagedChart becomes a Bundle of Fleet (docs/managed-charts.md)
//   - reach/chartrepo: how charts of users are downloaded, with limits
//   - reach/endpointtoken, reach/endpointauth: tokens for one cluster, with which users reach it without Drover
//   - reach/unread: streams whose reader stops reading, and what all of them may hold
//   - kube/capi/thrift, kube/capi/hold: how Cluster API's core needs fewer writes and less time
//   - kube/capi/priority: queues of Cluster API's controllers that always end
//   - decide/autoscaling, reach/scaling: what the autoscaler of a cluster may do, and how lists are narrowed for it
//   - reach/proxy, kube/capi/clustercache: the connections of Drover's own controllers, and of Cluster API's
//   - ui: sessions, the table of endpoints, and the stream of rows that browsers follow
//   - operate/inspect, operate/preview: the same decisions, explained and asked in advance
//   - operate/edit, operate/apply: changes of a Cluster as values, and how one is written once after its preview
//   - operate/backup: what belongs to a cluster, and how it moves to another management cluster
//   - operate/adopt: which instance manages a cluster, and how that changes
//   - operate/diagnose: the chains that make a cluster work, and their first broken link
//   - decide/summary, operate/status: the state of a cluster and of a machine, and their rows
//   - operate/machinessh: how drover ssh reaches the host of a machine, and verifies it
//   - operate/supportbundle, decide/redact: what may leave the management cluster, and what is removed from it
package pkg

// Package diagnose finds the first broken link in the chains that make a cluster work.
//
// A cluster works when every link of every chain works. The chain starts with the management plane, the Cluster and the
// objects made from it. Then follow each machine's bootstrap data, host, plan, agent and node. At the end are the
// control plane and the connection to its API. A broken link blocks all links after it, so only the first broken link
// of a chain matters.
//
//	definitions → admission → clock → leader → owner → credential → driver → cluster
//	→ management → core → pause → infrastructure → configuration
//	   ├─► per pool:     pool → machines
//	   │     └─► each:   machine → bootstrap → host → job → plan → agent → node
//	   ├─► rollout
//	   └─► kubeconfig → connection → ready
//
// Diagnose is a pure function of a World. Package inspect gathers the World.
package diagnose

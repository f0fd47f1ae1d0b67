// Package diagnose finds the first broken link in the chains that make a cluster work.
//
// A cluster works when every link of every chain does: what the management plane needs, the Cluster and what is made of it, then for each machine its
// bootstrap data, host, plan, agent and node, and at last the control plane and the way to its API. A link that does not work keeps
// those behind it from working, so only the first of a chain is worth a person's time.
//
//	definitions → admission → clock → leader → owner → credential → driver → cluster → management → core → pause → infrastructure → configuration
//	   ├─► per pool:     pool → machines
//	   │     └─► each:   machine → bootstrap → host → job → plan → agent → node
//	   ├─► rollout
//	   └─► kubeconfig → connection → ready
//
// Diagnose is a function of a World, which somebody else has gathered; see package inspect.
package diagnose

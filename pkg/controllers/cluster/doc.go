// Package cluster mirrors a provisioning Cluster and its connection. It turns the kubeconfig that the first server
// printed into the Secret that Cluster API, clusterctl and people use. It keeps the status of the management Cluster.
//
//	plan Secret of a server  ─► captured kubeconfig ─► Secret <cluster>-kubeconfig
//	API server answers once  ─► management condition Connected ─► status.ready
//	control plane, agent     ─► status of the management Cluster
//	nodes, version           ─► the same, of an imported cluster, counted every few minutes
//
// It acts on Clusters that controller provisioningcluster has claimed and named. It runs after that controller, on the
// Cluster that it has just written, so neither waits for the other. In a Cluster's status it owns ready, agentDeployed,
// clientSecretName and condition Reconciling.
//
// In a deletion it does nothing of its own: controller provisioningcluster calls Disconnect.
//
// # Wake-ups
//
// Object: Cluster. Woken by: management Cluster, CAPI Cluster, RKEControlPlane, Machine (server), Secret (plan with
// captured output, kubeconfig, its token). An agent that connects or disconnects wakes it too.
package cluster

// Package cluster is the bridge between a provisioning Cluster and the
// management side: it allocates the identifier by which everything else knows
// the cluster, makes the management record, its namespace and the registration
// token, and turns the kubeconfig that the first server printed into the Secret
// that Cluster API, clusterctl and people use.
//
//	Cluster (marked as ours) ─► status.clusterName ─► management Cluster c-m-…, Namespace, token
//	plan Secret of a server  ─► captured kubeconfig ─► Secret <cluster>-kubeconfig
//	API server answers once  ─► management condition Connected ─► status.ready
//
// It acts only on Clusters that carry our mark, which controller
// provisioningcluster writes once a Cluster is valid. In a Cluster's status it
// owns clusterName, fleetWorkspaceName, ready, agentDeployed,
// observedGeneration, clientSecretName and the conditions Created, Reconciling
// and Stalled.
//
// # Wake-ups
//
// Object: Cluster. Woken by: management Cluster, CAPI Cluster, RKEControlPlane, Machine (server), Secret (plan
// with captured output, kubeconfig, its token). An agent that connects or disconnects wakes it too.
package cluster

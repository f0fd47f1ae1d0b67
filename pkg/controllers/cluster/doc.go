// Package cluster connects a provisioning Cluster to the management side. It allocates the identifier by which all
// other parts know the cluster. It creates the management Cluster, its namespace and the registration token. It turns
// the kubeconfig that the first server printed into the Secret that Cluster API, clusterctl and people use.
//
//	Cluster (marked as ours) ─► status.clusterName ─► management Cluster c-m-…, Namespace, token
//	plan Secret of a server  ─► captured kubeconfig ─► Secret <cluster>-kubeconfig
//	API server answers once  ─► management condition Connected ─► status.ready
//
// It acts only on Clusters with this instance's mark, which controller provisioningcluster writes once a Cluster is
// valid. In a Cluster's status it owns clusterName, fleetWorkspaceName, ready, agentDeployed, observedGeneration and
// clientSecretName. It also owns the conditions Created, Reconciling and Stalled.
//
// # Wake-ups
//
// Object: Cluster. Woken by: management Cluster, CAPI Cluster, RKEControlPlane, Machine (server), Secret (plan with
// captured output, kubeconfig, its token). An agent that connects or disconnects wakes it too.
package cluster

// Package autoscaler makes what the cluster-autoscaler of a cluster needs, for Clusters whose pools have sizes for an
// autoscaler. Package decide/autoscaling has the content.
//
//	provisioning Cluster (with autoscalingMinSize and autoscalingMaxSize in a pool)
//	   ├─► ServiceAccount, Role, RoleBinding: an apply set, owned by the Cluster
//	   ├─► Secret with a kubeconfig for that account; its token is renewed when half of its lifetime is over
//	   └─► with an image: the Deployment in the cluster, through Drover's own connection
//
// Controller clustersync copies the Secret into the cluster. The Deployment starts again with a new kubeconfig, after
// that copy has arrived. A cluster answers slowly or never, so that work there happens in visits in the background
// (proxy.Visits).
//
// The controller owns condition ClusterAutoscalerDeploymentReady of the Cluster. It exists while Drover deploys the
// autoscaler. It also shows that there is, or was, something to remove from the cluster.
//
// # Wake-ups
//
// Object: Cluster. Woken by: Machine (of a pool with sizes, new or gone), MachineDeployment (of a pool with sizes, new
// or gone), ServiceAccount, Secret (kubeconfig of the autoscaler), management Cluster. An agent that connects wakes it
// too.
package autoscaler

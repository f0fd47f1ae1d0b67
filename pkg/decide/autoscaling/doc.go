// Package autoscaling decides what a cluster with sizes for an autoscaler gets: the account of the autoscaler in the
// management cluster, its kubeconfig, and the Deployment of the cluster-autoscaler in the cluster.
//
//	management cluster: ServiceAccount, Role, RoleBinding (Account)
//	   └─► token ─► Secret with a kubeconfig (Kubeconfig)
//	                   └─ copied ─► the cluster: Secret kube-system/mgmt-kubeconfig
//	                                   └─ mounted by Deployment drover-cluster-autoscaler (Program)
//
// The account may scale the MachineDeployments of its own cluster, and mark the machines of these for deletion. It has
// no permission on machine templates, which can contain passwords of clouds: annotations tell the autoscaler the
// capacity of new nodes. (docs/wire/capi.md#autoscaling.)
package autoscaling

// Package fleetcluster gives Fleet a Fleet Cluster for each provisioning Cluster, provisioned or imported. Fleet reads
// the kubeconfig from the Secret that it names, and installs its agent in the cluster. Package decide/fleet has the
// content.
//
// The controller acts while Fleet's CRDs are established, which come and go while Drover runs. The Fleet Cluster is in
// the workspace of the Cluster. Drover makes it once the cluster is ready for the first time. A cluster that loses its
// connection keeps it, because Fleet would remove what it has deployed. It goes with the Cluster: controller
// provisioningcluster calls Remove when the machines are gone. When the workspace changes, the new Fleet Cluster exists
// before the old one goes.
//
// Drover never takes a Fleet Cluster that it did not make. The first write is a plain create, which fails for a name
// that is taken. Users may add labels and fields to a Fleet Cluster. Drover keeps what it did not set.
//
// A workspace in another namespace needs the consent of that namespace, because each cluster of a workspace can get
// what Fleet deploys there.
//
// The controller owns condition FleetCluster of the Cluster. It exists only for Clusters that have or had a problem.
//
// # Wake-ups
//
// Object: Cluster. Woken by: management Cluster, Secret (kubeconfig), Namespace (a workspace elsewhere),
// CustomResourceDefinition (Fleet's). Each Fleet Cluster wakes its Cluster too.
package fleetcluster

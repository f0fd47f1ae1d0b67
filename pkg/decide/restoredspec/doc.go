// Package restoredspec puts the configuration of a cluster back that its etcd snapshot contains.
//
// A request for a restore with the mode kubernetesVersion or all asks for it. The Cluster gets the fields of the
// snapshot's spec in one write, before the request reaches the RKEControlPlane. So the planner always sees the request
// together with the configuration.
//
//	Cluster, ETCDSnapshot ── Restore ──► the restored Cluster and its changes, or the problems
//	                                       │ Patch: only the changed fields
//
// Who may fill the metadata of a snapshot may not always write the Cluster, and Drover may read all Secrets. Therefore
// a restore never adds a reference to a Secret of another namespace.
package restoredspec

// Package snapshots decides which ETCDSnapshot objects a cluster has: one for each snapshot in the cluster's own list
// (docs/wire/planner.md#etcdsnapshot-objects).
//
//	List     reads the cluster's list, etcdsnapshotfiles.k3s.cattle.io, as files
//	Decide   returns the objects to create, update and delete
//
// RKE2 and K3s keep that list inside the cluster, and Drover does not trust a cluster. The list is limited in number
// and size, and names that are not file names are skipped. The credential for a restore never comes from the list.
//
// Objects that users create for a restore lack the annotation of objects from lists. Drover leaves them alone.
//
// All functions are pure.
package snapshots

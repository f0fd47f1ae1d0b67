// Package snapshots decides which ETCDSnapshot objects a cluster has: one for each snapshot that its own list names
// (docs/wire/planner.md#etcdsnapshot-objects).
//
//	List     reads the cluster's list, etcdsnapshotfiles.k3s.cattle.io, as files
//	Decide   tells which objects to make, change and delete
//
// RKE2 and K3s keep that list inside the cluster, and a cluster is not trusted: what it says is bounded in number and size, names that are no file names
// are left out, and which credential a restore uses is never taken from there.
//
// Objects that people write for a restore lack the annotation by which those from lists are known, and are left alone.
//
// Everything is a function from a value to a value.
package snapshots

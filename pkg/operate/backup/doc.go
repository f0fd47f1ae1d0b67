// Package backup copies everything that a Drover manages from one management cluster to another.
//
//	Collect ─► Backup ─► Write ─► FILE ─► Read ─► Backup ─► Restore
//
// The label rkev1.BackupLabel selects the content of a backup. On a definition it selects all objects of that kind. On
// a Secret, ConfigMap or account it selects that object. A backup also contains everything that these objects own, down
// to the last dependent, and the users' Secrets and ConfigMaps that they name. Controllers and Kubernetes create the
// other objects again (see Derived).
//
// A backup is a gzipped tar. It starts with manifest.yaml, which lists all objects with their checksums. The objects
// follow as YAML, in the order in which they can be created. A backup holds credentials in clear text.
//
// Restore creates objects and never changes or deletes an existing one. Restored clusters are only watched until a user
// adopts them: Clusters have no mark, and Cluster API is paused. A user can repeat an interrupted restore until the
// first adoption. After that, Restore refuses, because it would bring back objects that were removed since. A Cluster
// that exists and was not made from this backup is always a conflict, because the identity of a cluster is in its
// status.
//
// Restore gives owner references the new UIDs of the owners. It also restores status, because finished operations would
// run again without it. Machines keep the identity that their nodes know, and the digest that authenticates their
// agents.
package backup

// Package backup copies everything that a Drover manages out of one management cluster and into another one.
//
//	Collect ─► Backup ─► Write ─► FILE ─► Read ─► Backup ─► Restore
//
// What belongs to a backup is found by one label, rkev1.BackupLabel: a definition that has it stands for all objects of its kind, and a
// Secret, ConfigMap or account that has it for itself. Beside those come what they own, down to the last dependent, and the Secrets and
// ConfigMaps of users that they refer to. Everything else is made again by who made it (select.go says what that is).
//
// A backup is a gzipped tar: manifest.yaml, which lists all objects with their checksums, and the objects as YAML in the order in which
// they can be made. It holds credentials in clear text.
//
// Restore makes objects and never changes or deletes one. What it makes is watched only: Clusters carry the mark of nobody, and Cluster API
// is paused, until somebody adopts them. It can be cut off at any point and run again until then; after that it refuses, because it would bring
// back what was removed since. A Cluster that exists and was not made from this backup is always another one: who it is stands in its status.
// Owners are found again by the UIDs that they have now; status comes back, because operations that were done long ago would begin anew
// without it; machines keep the identity by which their nodes know them, and the digest by which their agents are let in.
package backup

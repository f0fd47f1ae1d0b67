// Package snapshots keeps an ETCDSnapshot for every snapshot that a cluster lists
// (docs/wire/planner.md#etcdsnapshot-objects), for people to see, for restores to name, and for the figures about the
// age of backups.
//
// RKE2 and K3s keep the list inside their cluster, and nothing tells Drover of its changes: each cluster is asked in the background, once a minute and
// soon after an operation of its own. A question is for names and versions only; the whole list, with what was stored with each
// snapshot, is read when one of these has changed. A cluster that does not answer is asked less often, and holds up no other.
//
// Nothing is changed for clusters of others, and for those that are paused, deleted or being restored: there, the list comes from the past.
//
// # Wake-ups
//
// Object: RKEControlPlane. Nothing else wakes it: it reads the lists of clusters once a minute.
package snapshots

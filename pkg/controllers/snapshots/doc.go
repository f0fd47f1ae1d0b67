// Package snapshots maintains an ETCDSnapshot for every snapshot in a cluster's list
// (docs/wire/planner.md#etcdsnapshot-objects). People read them, restores name them, and metrics on the age of backups
// use them.
//
// RKE2 and K3s keep the list inside their cluster and do not notify Drover of changes. Drover polls each cluster in the
// background, once a minute and soon after an operation. A poll reads names and versions only. If they changed, Drover
// reads the whole list, with the metadata of each snapshot. A cluster that does not answer is polled less often, and
// delays no other cluster.
//
// Drover writes nothing for clusters of other instances. It also writes nothing for paused or deleted clusters, or
// during a restore, when the list comes from the past.
//
// # Wake-ups
//
// Object: RKEControlPlane. No other event wakes it: it polls the clusters' lists once a minute.
package snapshots

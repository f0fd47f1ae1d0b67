// Package machineconfig deletes machine configs that no cluster uses. User interfaces create a machine config before
// its Cluster, and leave it behind if the Cluster is never created.
//
// A machine config is deleted if all of these conditions hold:
//
//   - It has no owner. A cluster that uses a machine config owns it.
//   - It is at least an hour old.
//   - No Cluster of its namespace names it, even if that Cluster is wrong or belongs to another manager.
//   - It has no annotation provisioning.cattle.io/keep-machine-config.
//
// While another manager runs here, nothing is deleted. The controller asks the API server for the Clusters before it
// deletes anything, because a cache may lack the newest one. The deletion fails if the machine config has changed
// since. A machine config without an owner is checked every hour, so no Cluster wakes it.
package machineconfig

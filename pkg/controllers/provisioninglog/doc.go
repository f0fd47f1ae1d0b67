// Package provisioninglog writes the log of each Cluster: one line for each message that the Cluster has shown, in
// ConfigMap provisioning-log of the management cluster's namespace (docs/wire/names.md#provisioning-log).
//
// The log and its last message are in one ConfigMap, so one write adds a line and records that it is there. A process
// that is killed continues where the ConfigMap ends. A line with the time of the present second delays the next line to
// the next second, so a Cluster gets at most one write in each second.
//
// The controller has no memory but that of its own writes. It writes no line while a Cluster is being deleted. The log
// is deleted with its namespace.
//
// # Wake-ups
//
// Object: Cluster. Woken by: ConfigMap (its log).
package provisioninglog

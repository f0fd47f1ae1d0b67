// Package events describes what has happened to clusters and machines, as Kubernetes Events that `kubectl describe`
// shows.
//
// Every function compares the old and the new version of an object, and returns the events of that change. The package
// keeps no state. An unchanged object causes no event, and an object that exists when a process starts has no older
// version, so a restart repeats nothing. pkg/server records the events, on the leader only, and does not wait for it.
//
// An event is on the object that a user would describe: on the provisioning Cluster for the whole cluster, and on the
// Machine or the <Driver>Machine where something is wrong, or where one machine matters, such as a drain. What every
// machine does in its normal life is a Step. The machines of a pool take a step together, so a Batch turns their steps
// into one event on the Cluster, and a fleet of thousands of machines writes few.
//
// Texts are Drover's own or those of conditions, which are bounded and contain no secrets. Package redact cleans the
// output of node drivers. From a plan Secret only times, checksums and causes are used.
//
// Reasons are constants in reasons.go and nowhere else. docs/reasons explains each of them.
package events

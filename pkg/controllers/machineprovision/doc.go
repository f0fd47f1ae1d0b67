// Package machineprovision makes and removes virtual machines: for every object of a kind that a node driver brought, such
// as Amazonec2Machine, it runs rancher-machine in a Job and reports what became of it.
//
// What happens when is decided by package machinejob, from a snapshot that gather.go reads from caches; act.go carries the
// decision out, one call or one set of objects after the other, and report.go writes the status, last and once. A crash
// between any two writes is made up for in the next pass: whatever is about to be done in the cloud has been written to the
// status before.
//
// Caches may be older than our own last write. Where that matters, which is only when a machine is let go, act.go asks the
// API server.
//
// # Wake-ups
//
// Object: <Driver>Machine. Woken by: Machine, RKEBootstrap, Cluster, CAPI Cluster, Job, Pod, Secret (state). An
// answer of package access wakes it too.
package machineprovision

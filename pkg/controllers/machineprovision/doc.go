// Package machineprovision creates and removes virtual machines. For every object of a node driver's kind, such as
// Amazonec2Machine, it runs rancher-machine in a Job and reports the result.
//
// Package machinejob decides, from a snapshot that gather.go reads from caches. act.go carries out the decision, one
// call or one set of objects at a time, and report.go writes the status once, at the end. A crash between two writes is
// repaired by the next reconcile, because every action in the cloud is recorded in the status first.
//
// output.go stores the output of each ended Job in a Secret of the machine, before the status shows the end of the Job.
// So `drover logs` finds the output after the pod is gone.
//
// Caches may be older than this controller's own last write. That matters when a machine is released, and there act.go
// asks the API server. It also matters when a machine is removed soon after its creation: caches may still show the
// Secrets and rights that were deleted after the creation. Therefore a running removal gets what caches lack.
//
// # Wake-ups
//
// Object: <Driver>Machine. Woken by: Machine, RKEBootstrap, Cluster, CAPI Cluster, Job, Pod, Secret (state, output,
// deleted), ServiceAccount (deleted), Role (deleted), RoleBinding (deleted). An answer of package access wakes it too.
package machineprovision

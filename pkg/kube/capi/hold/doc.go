// Package hold writes the statuses of Cluster API's core less often. Its client holds patches of them back for some
// seconds and writes all that it holds for an object in one patch.
//
//	held := hold.New(client, hold.Options{Wake: queues.add, Requeue: queues.again})
//	machine.Reconciler{Client: held.For("machine")}    // per controller
//	held.Finished("machine", request)                  // when a reconcile has ended
//	held.Flush(ctx)                                    // when the controllers have ended
//
// Only statuses of Machines, MachineSets, MachineDeployments and Clusters may wait.
//
// # Why it is sound
//
//   - A flush writes everything that is held for an object. The API server therefore has a status that it would have
//     had anyway, only later. To all readers this is a slow controller or a watch that lags.
//   - The core itself does not wait. Reads through the client show what is held, and what is written but not yet in the
//     cache. There is no time limit for the latter.
//   - A change may wait only if a rule in decide.go allows it. Everything else is urgent, for example fields that a
//     later Cluster API adds. An urgent change is written when the reconcile ends, together with all that is held.
//   - The status of an object that is being deleted never waits.
//   - Only the controller of a kind holds statuses of it. Patches of other controllers are written at once. They
//     conflict if something was held or written since the other controller read the object, as with the API server.
//   - A flush changes only fields that still have the value from which the core computed the change. A condition is one
//     field. What others write in between stays, as if they had written after the core.
//   - A flush is for one version of the object. After a conflict it starts again from the newest version.
//   - If a flush fails, the held status is dropped and the object is reconciled again.
//   - A killed process loses what it holds, as a core loses a status when it is killed before the write. The statuses
//     are functions of objects that are stored, so the first reconcile of the next process computes them again. Only
//     the deprecated condition Resized tells of the last action, and no program reads it.
//   - The event of a write that waits is missing in the meantime. Where a controller does its next step after that
//     event, it is woken at once and reads what is held: the MachineDeployment of a MachineSet with other numbers, and
//     an object with a new condition Paused, because Cluster API ends the reconcile that sets it.
//
// # Who reads these statuses
//
// Drover's handlers read the manager's cache and do not see what is held. These changes are urgent for them:
//
//	planner               Machine: phase, InfrastructureReady, nodeRef, nodeInfo, addresses,
//	                      infrastructureProvisioned, NodeReady if it may mean a lost node, every condition with reason
//	                      Error; Cluster: initialization, ControlPlaneInitialized, RemoteConnectionProbe
//	bootstrap             Machine: nodeRef, InfrastructureReady and BootstrapConfigReady with a failure; Cluster:
//	                      initialization
//	machineprovision      Machine: HealthCheckSucceeded, infrastructureProvisioned; Cluster: initialization
//	provisioningcluster   Machine: Deleting; Cluster: Deleting; MachineDeployment: replicas, from and to zero
//	cluster               Cluster: RemoteConnectionProbe; Machine: addresses
//	machinedrain,         Machine: nodeRef
//	snapshots, unmanaged
//	metrics, events and   Machine: nodeRef, InfrastructureReady, BootstrapConfigReady with a failure, NodeHealthy,
//	traces                Ready, HealthCheckSucceeded, the end of UpToDate, the begin and the end of a pause
//
// The planner also repeats the message of a Machine's condition Ready in the messages of its control plane. That
// message may be late. Commands such as "drover diagnose" show conditions as they are stored.
//
// The controllers of the core read through the client, but the events of stored objects wake them. These changes are
// urgent for them:
//
//	MachineSet            Machine: Ready, Available and the end of UpToDate
//	Machine               Cluster: initialization, ControlPlaneInitialized
//	MachineHealthCheck    Machine: nodeRef, NodeHealthy, remediation; Cluster: InfrastructureReady,
//	                      ControlPlaneInitialized
//	all                   the begin and the end of a pause
//
// Users and their tools wait for the conditions Available and RollingOut, for the phases of the end, and after an edit
// for the observed generation of a MachineDeployment. The other numbers and messages may be some seconds late.
package hold

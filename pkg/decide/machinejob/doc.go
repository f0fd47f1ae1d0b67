// Package machinejob decides what happens to one infrastructure machine. This is an object of a node driver's kind,
// such as Amazonec2Machine, that represents one virtual machine in one cloud.
//
// rancher-machine creates and removes the virtual machine, in the pod of a Job in the machine's namespace. Its
// parameters are on the command line (Arguments), and credentials are in the environment (Environment). The install
// script and other files are in mounted Secrets. It stores what it knows about the virtual machine in the state Secret.
// This package renders all of them (Render), and decides from a Snapshot when which Job runs (Decide).
//
// Decide guarantees:
//
//   - A virtual machine is never forgotten. The machine's status records a Job before the Job is created (CreateJob or
//     DeleteJob become Unknown). The finalizer is removed only in three cases: the state Secret shows that nothing was
//     ever created, a Job removed the virtual machine, or the user forced it. A missing Job proves nothing.
//   - A machine is created exactly once. The Job's name follows from the machine's, and the Job is never replaced while
//     it matters. If a recorded Job disappears, the machine fails. It is not created a second time.
//   - A removal waits until a started creation has ended, because the driver may be about to record the machine. A
//     creation whose pod never started is deleted at once.
//   - A failed removal is retried with a growing delay. Each attempt has its own Job.
//   - A removal needs only the infrastructure machine, its state Secret and the credential. The Machine of Cluster API
//     and the NodeDriver may be gone.
//
// Drover creates the state Secret once and never writes it again; only rancher-machine does. So the update with which
// the driver records a new virtual machine cannot conflict.
package machinejob

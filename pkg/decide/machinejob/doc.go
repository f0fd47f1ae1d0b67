// Package machinejob decides what happens to one infrastructure machine: an object of a kind that a node driver brought,
// such as Amazonec2Machine, which stands for one virtual machine in one cloud.
//
// rancher-machine makes and removes the virtual machine. It runs in the pod of a Job in the machine's namespace; it finds
// its parameters on the command line (Arguments), credentials in the environment (Environment), the install script and
// other files in mounted Secrets, and keeps what it knows about the virtual machine in the state Secret. This package
// renders all of them (Render) and decides when which Job runs (Decide), from a Snapshot of everything that matters.
//
// What Decide guarantees:
//
//   - A virtual machine is never forgotten. That a Job is about to run is written to the machine's status before the Job
//     is made (CreateJob or DeleteJob turn Unknown); the finalizer goes only when the state Secret shows that nothing was
//     ever made, or a Job that removes it succeeded, or somebody forced it. The absence of a Job proves nothing.
//   - Exactly one create. The Job's name follows from the machine's, it is never replaced while it matters, and when it
//     vanished after it had been recorded the machine fails instead of being made twice.
//   - A create that was started is waited for before the removal begins, because the driver may be about to record the
//     machine; one whose pod never started is taken back at once.
//   - A failed removal is tried again with growing delay, each attempt a Job of its own.
//   - Removal needs the infrastructure machine, its state Secret and the credential, nothing else: neither the Machine of
//     Cluster API nor the NodeDriver has to be there any more.
//
// The state Secret is rancher-machine's alone: it is made once and never written again, so that the update by which the
// driver records a new virtual machine cannot meet a conflict.
package machinejob

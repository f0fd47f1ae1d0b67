// Package unmanaged makes machines of hosts that exist already, and that their owners register with a cluster.
//
//	Secret (machine request, in c-m-…) ── decide ──► RKEBootstrap, CustomMachine, Machine ──► labels on the Secret
//	                                            └──► an annotation on it that says why not
//
// A host says what it is in a machine request, which package connect writes down for it and waits for the answer to. A host is known by the
// identity that it has made up: who asks again, with whatever flags, is the Machine that it was. One request for each identity and cluster is
// what its name gives, so that two hosts with the same identity, of which one is a copy of the other's disk, never are two machines; and a host
// whose identity is that of a machine elsewhere is refused, also while both ask at once.
//
// The Machine is made last: what a process that was killed has left is completed with the next one, and until then nobody takes it up. Where the host
// says something else by then, what is left is made to say that first: no machine has the roles of two requests. What was
// begun and never completed goes with the cluster. An answer is for what the host said then; when it says something else, it gets another
// one. One with a Machine is never given twice for the same words: whoever deletes the Machine has not to fear that it comes back by itself. A
// refusal is looked at again with everything that it may come from. A request is deleted a minute after this process has first seen it, answered or not, whatever the
// clock of the API server says: one that was made long ago is answered first.
//
// Identities are made up by whoever has the token: while too many hosts of a cluster have no node yet, it takes none that is new.
//
// The other half is the status of CustomMachines. The host is there, so its infrastructure is ready at once, and the planner gives it a plan; it is
// provisioned, for Cluster API, when its node is known (machinenodelookup).
//
// Requests and machines of clusters of others are left alone.
//
// # Wake-ups
//
// Object: Secret (machine request) and CustomMachine. Woken by: Cluster, CAPI Cluster, Machine, RKEBootstrap,
// CustomMachine (of that name or identity).
package unmanaged

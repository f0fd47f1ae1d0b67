// Package unmanaged makes machines of existing hosts, which their owners register with a cluster.
//
//	Secret (machine request, in c-m-…) ── decide ──► RKEBootstrap, CustomMachine, Machine ──► labels on the Secret
//	                                            └──► an annotation on it that says why not
//
// A host describes itself in a machine request. Package connect writes the request and waits for the answer. The
// identity that the host generated identifies it: a host that asks again keeps its Machine, whatever its flags. The
// request's name follows from identity and cluster. Two hosts with one identity, such as copies of a disk, are
// therefore never two machines. A host whose identity belongs to a machine of another cluster is refused, even if both
// ask at once.
//
// The Machine is created last. A restarted process completes what a killed one has left, and until then no controller
// uses it. If the host's request has changed by then, the remaining objects are first updated, so that no machine has
// the roles of two requests. Objects that are never completed are deleted with the cluster.
//
// An answer applies to the request's content, and changed content gets a new answer. The same content never gets a
// Machine twice, so a deleted Machine does not come back by itself. A refusal is reconsidered when any of its causes
// changes. A request is deleted a minute after this process first saw it, answered or not, and independent of the API
// server's clock. An old request is therefore answered before it is deleted.
//
// Everyone with the token can generate identities. A cluster with too many hosts without a node accepts no new host.
//
// A ClusterRegistrationToken can limit the roles and the number of its hosts. The token's status has a host before the
// host's Machine is made, and keeps it when the Machine is deleted.
//
// The package also writes the status of CustomMachines. The host exists, so its infrastructure is ready at once, and
// the planner gives it a plan. For Cluster API it is provisioned when its node is known (machinenodelookup).
//
// # Hosts that leave
//
// A finalizer holds a deleted CustomMachine until the host is cleaned (leave.go). At that moment the node is drained, the
// etcd member has left, and the host still has its credential. The host gets one last plan, and a deadline. The
// finalizer has the name of Rancher's, which every release and Rancher remove.
//
// A host that is away for longer than its cluster allows is removed (away.go). A host that registers again removes the
// node of its former Machine (formernode.go), because a node keeps the label of the machine that it was first.
//
// The package ignores requests and machines of clusters of other instances.
//
// # Wake-ups
//
// Object: Secret (machine request) and CustomMachine. Woken by: Cluster, CAPI Cluster, RKECluster, Machine,
// RKEBootstrap, CustomMachine (of that name or identity), ClusterRegistrationToken (of the request), Secret (plan).
package unmanaged

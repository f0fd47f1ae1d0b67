// Package clustercache connects Cluster API's controllers to clusters through the one door that all of Drover uses (package proxy): the tunnel of a
// cluster whose agent has dialed in, and before that the kubeconfig that its servers gave.
//
//	clusters, err := clustercache.New(manager, clustercache.Options{Door: door, Subscribe: subscribe})
//	machine.Reconciler{ClusterCache: clusters}
//
// It stands where Cluster API's own implementation would, which reads kubeconfigs from Secrets and tries each cluster again and again. What is
// different here:
//
//   - A cluster is connected when its agent dials in or its kubeconfig is stored, and not connected any more when the agent is gone: both are told, and
//     neither is waited for. While there is no way to a cluster nobody tries one.
//   - Requests go from the controllers into the tunnel, and not through an endpoint with a token.
//   - A kubeconfig that changes is used at once, and not when the one before is refused.
//
// A cluster that is connected is asked every ten seconds, as Cluster API does: an agent that is there says nothing about the API server behind it.
// One to which there is no way counts as one that does not answer. An attempt to connect that takes long is followed by a long pause, so that workers are
// there for clusters that answer.
//
// What to do about a cluster is decided in decide.go, which does no I/O; one worker at a time does it for each cluster.
package clustercache

// Package clustercache connects Cluster API's controllers to clusters in the same way as all of Drover (package proxy).
// It uses the tunnel of a cluster whose agent is connected, and before that the kubeconfig from its servers.
//
//	clusters, err := clustercache.New(manager, clustercache.Options{Door: door, Subscribe: subscribe})
//	machine.Reconciler{ClusterCache: clusters}
//
// It replaces Cluster API's implementation, which reads kubeconfigs from Secrets and tries each cluster again and
// again. The differences are:
//
//   - A cluster is connected when its agent dials in or its kubeconfig is stored, and disconnected when the agent
//     leaves. Events report both at once. A cluster without a way is not tried.
//   - Requests go from the controllers directly into the tunnel, without an endpoint and a token.
//   - A changed kubeconfig is used at once, instead of after a refusal of the old one.
//
// A connected cluster is probed every ten seconds, as in Cluster API, because a connected agent does not prove that the
// API server behind it answers. A cluster without a way counts as failing. A long pause follows a long attempt to
// connect, so that workers remain for clusters that answer.
//
// decide.go decides what to do about a cluster, without I/O. One worker at a time acts on each cluster.
package clustercache

// Package proxy is the one door to downstream clusters: nothing else in Drover
// reads a kubeconfig or dials a cluster that it manages.
//
//   - Capture reads the administrator's kubeconfig that a node printed and keeps
//     only what is safe to use; Access.Kubeconfig writes it for another address.
//   - Secret builds the Secret in which Cluster API, clusterctl and people find a
//     cluster's kubeconfig. It is an output: our own code asks Clients instead.
//   - Clients hands out clients, cached until the Secret changes. Every call has
//     a deadline, so that a cluster that does not answer holds nobody up.
//   - No answer is larger than it may be: a cluster must not take all of the
//     server's memory.
//   - Prober finds out in the background whether a cluster answers, and wakes its
//     object when it does.
//
// What comes from a node is not trusted: a kubeconfig may name programs to run
// and files to read, and both would happen on the management plane.
package proxy

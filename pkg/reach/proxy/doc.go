// Package proxy is the only access of Drover's controllers to downstream clusters. No other package reads a kubeconfig
// or dials a managed cluster.
//
//   - Capture reads the administrator's kubeconfig that a node printed, and keeps only what is safe to use.
//     Access.Kubeconfig writes it for another address.
//   - Secret builds the kubeconfig Secret that Cluster API, clusterctl and users read. It is an output: Drover's own
//     code uses Clients instead.
//   - Clients provides clients, cached until the Secret changes. Every call has a deadline, so that a cluster that does
//     not answer blocks no other work.
//   - The size of answers is limited, so that a cluster cannot exhaust the server's memory.
//   - Prober checks in the background whether a cluster answers, and wakes its object when it does.
//
// Data from a node is not trusted: a kubeconfig may name programs to run and files to read, which would happen on the
// management plane.
package proxy

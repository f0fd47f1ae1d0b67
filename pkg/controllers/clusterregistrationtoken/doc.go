// Package clusterregistrationtoken keeps the tokens by which hosts and the agents of clusters register.
//
// Package registration decides; here its facts are read from caches, the Secret is written, and after it the status, so that the status
// never tells of a token that is not there. The Secret is updated under the resource version that the decision was made from: of two
// replicas, or of a replica whose cache is behind, only one replaces a token.
//
// Only tokens of clusters that are ours are kept, in the namespace that has the name of the cluster. A token elsewhere lets nobody in.
//
// # Wake-ups
//
// Object: ClusterRegistrationToken. Woken by: Secret (its token), management Cluster, Cluster.
package clusterregistrationtoken

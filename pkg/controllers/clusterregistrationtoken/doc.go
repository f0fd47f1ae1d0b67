// Package clusterregistrationtoken manages the tokens with which hosts and cluster agents register.
//
// Package registration decides. This package reads the facts from caches, writes the Secret with the token and the
// complete commands, and then writes the status. The status therefore never names a token that does not exist. The Secret is updated at the resource version
// that the decision used. If two replicas compete, or a cache is behind, only one replaces the token.
//
// The controller manages only tokens of this instance's clusters, in the namespace with the cluster's name. A token in
// another namespace gives no access.
//
// # Wake-ups
//
// Object: ClusterRegistrationToken. Woken by: Secret (its token), management Cluster, Cluster. A change of the install
// script queues all tokens within a minute, because their commands contain its digest.
package clusterregistrationtoken

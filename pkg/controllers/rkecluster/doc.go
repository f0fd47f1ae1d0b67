// Package rkecluster fulfils Cluster API's contract for infrastructure clusters.
//
// An RKECluster stands for nothing: machines bring their own infrastructure. But
// Cluster API waits for an infrastructure cluster that is provisioned and for an
// endpoint before it makes machines. So the controller says it is provisioned
// and names an endpoint that nobody dials: every access goes through the
// kubeconfig Secret.
//
// An RKECluster that somebody made without a provisioning Cluster is served like
// any other. One whose provisioning Cluster is another manager's is left alone.
//
// # Wake-ups
//
// Object: RKECluster. Woken by: CAPI Cluster, Cluster.
package rkecluster

// Package rkecluster fulfills Cluster API's contract for infrastructure clusters.
//
// An RKECluster has no infrastructure of its own, because machines bring theirs. But Cluster API makes machines only
// after the infrastructure cluster is provisioned and has an endpoint. The controller therefore reports it as
// provisioned and sets an endpoint that no client dials. Every access uses the kubeconfig Secret.
//
// The controller also serves an RKECluster that a user made without a provisioning Cluster. It ignores one whose
// provisioning Cluster belongs to another manager.
//
// # Wake-ups
//
// Object: RKECluster. Woken by: CAPI Cluster, Cluster.
package rkecluster

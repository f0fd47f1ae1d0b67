// Package v1 holds the kind that users write: the Cluster of the API group provisioning.cattle.io.
//
// A Cluster contains a Kubernetes version, machine pools and the configuration of RKE2 or K3s. Drover derives
// everything else from it. A manifest written for Rancher works unchanged: keys, nullable markers and validations are
// those of its schema, and fields that have no effect are accepted.
package v1

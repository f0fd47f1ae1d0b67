// Package v1 contains the kinds of the API group rke.cattle.io: the Cluster API objects of a cluster that Drover
// manages.
//
// Users do not write these objects. A provisioning.cattle.io/v1 Cluster is translated into
//
//   - one RKECluster, the infrastructure cluster of the Cluster API contract (it represents no real infrastructure),
//   - one RKEControlPlane, the control plane of that contract: the configuration of the whole cluster and the state of
//     every operation on it,
//   - one RKEBootstrapTemplate, from which Cluster API clones an RKEBootstrap per machine,
//
// and the nodes add CustomMachine (a host that registered itself) and ETCDSnapshot objects.
//
// The JSON keys, nullable markers and validations are the ones that manifests, user interfaces and tools of this
// ecosystem rely on: a key never changes, and a nullable field stays nullable. A field that exists only because stored
// objects contain it says so. Defaults are never written: a reader applies them.
//
// names.go lists every label, annotation, finalizer, Secret type and condition type by constant.
package v1

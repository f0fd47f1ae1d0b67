// Package provisioningcluster claims a provisioning Cluster, names it, and translates it into the objects that its
// machines come from. Package topology decides which objects those are.
//
//	Cluster ─ gather ─ decide ─┬ claim      mark, finalizers, copies of driver schemas
//	                           ├ name       status.clusterName
//	                           ├ identify   management Cluster c-m-…, Namespace, registration tokens
//	                           └ translate  RKECluster, RKEControlPlane, CAPI Cluster, templates, MachineDeployments
//
// One pass takes a new Cluster through all four. Each later step needs what the earlier ones have stored, so a process
// can be killed after any write.
//
// It is the only writer of a Cluster's metadata and pools. It writes other fields of the spec only for a restore that
// puts the configuration of its snapshot back (restored.go). In the status it owns clusterName, fleetWorkspaceName and
// observedGeneration, and the conditions Created, RKECluster, Stalled, Updated, Provisioned and Ready. During a
// deletion it owns Removed. Controller cluster writes the rest of the status. Metadata and pools are patched field by
// field, and the status is written through its subresource, so that the user's other fields stay unchanged.
//
// Deletion starts with the CAPI Cluster, which deletes all other objects. If that was never created, this controller
// deletes the control plane itself. It does not wait for objects that no controller deletes. The management objects go
// last, because the machines need them until then. An adopted cluster also loses the finalizers of its former manager
// then, and no earlier.
//
// Four rules always hold. The controller never writes to a Cluster of another manager. It claims a refused Cluster, so
// that conditions and Events report the problem. A refused Cluster generates nothing, and existing objects stay.
// Nothing is generated before a finalizer protects it.
//
// A Cluster that names a PodSecurityAdmissionConfigurationTemplate also gets a Secret with the configuration. The
// Secret is written before the control plane that names it, and deleted after the control plane no longer names it.
// Users' Secrets that ask for it are deleted with the last of their clusters.
//
// # Wake-ups
//
// Object: Cluster. Woken by: management Cluster, RKEControlPlane, CAPI Cluster, Machine, MachineDeployment,
// DynamicSchema, ETCDSnapshot, CustomResourceDefinition, PodSecurityAdmissionConfigurationTemplate, Secret (credential,
// referred to, Pod Security). Each <Driver>Config and an answer of package access wake it too.
package provisioningcluster

// Package provisioningcluster turns a provisioning Cluster into Cluster API objects and keeps these up to date. Package
// topology decides which objects those are.
//
//	Cluster ─ gather ─ topology: whose? valid? prepared? desired? ─ act ─ report
//
// It is the only writer of a Cluster's metadata and pools: the ownership mark, finalizers, and copies of driver
// schemas. It also writes the conditions RKECluster, Updated, Provisioned and Ready, and Removed during a deletion.
// Controller cluster writes the rest of the status. Metadata and pools are patched field by field, and the status is
// written through its subresource, so that the user's other fields stay unchanged.
//
// Deletion starts with the CAPI Cluster, which deletes all other objects. If that was never created, this controller
// deletes the control plane itself. It does not wait for objects that no controller deletes.
//
// Three rules always hold. It never writes to a Cluster of another manager. An invalid Cluster generates nothing, and
// what exists stays. Nothing is generated before a finalizer protects it.
//
// # Wake-ups
//
// Object: Cluster. Woken by: RKEControlPlane, CAPI Cluster, Machine, MachineDeployment, DynamicSchema, Secret
// (credential, referred to). Each <Driver>Config and an answer of package access wake it too.
package provisioningcluster

// Package provisioningcluster turns a provisioning Cluster into Cluster API
// objects and keeps them so; package topology says which objects those are.
//
//	Cluster ─ gather ─ topology: whose? valid? prepared? desired? ─ act ─ report
//
// It is the only writer of a Cluster's metadata and pools (the ownership mark,
// finalizers, the copies of driver schemas) and of the conditions RKECluster,
// Updated, Provisioned, Ready and, while it is deleted, Removed. The rest of the
// status belongs to controller cluster. Metadata and pools are patched field by
// field, and the status is written through its subresource, so that the user's
// file stays as it was written.
//
// Removal goes by Cluster API's cluster, which takes all others along. Where it
// was never made, this controller deletes the control plane itself: what nobody
// deletes is not waited for.
//
// Three rules hold always. A Cluster of another manager is never written to. A
// Cluster with an error in it generates nothing, and what exists stays. Nothing
// is generated before a finalizer protects it.
//
// # Wake-ups
//
// Object: Cluster. Woken by: RKEControlPlane, CAPI Cluster, Machine, MachineDeployment, DynamicSchema, Secret
// (credential, referred to). Each <Driver>Config and an answer of package access wake it too.
package provisioningcluster

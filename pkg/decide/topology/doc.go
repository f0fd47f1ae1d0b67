// Package topology turns a provisioning Cluster into its Cluster API objects.
//
//	                      ┌ Ownership  whether Drover may write to it, or another manager owns it
//	Cluster + facts ──────┼ Prepare    what its own metadata and pools still lack
//	(machine configs,     ├ Validate   what is wrong with it, field by field
//	 driver schemas,      └ Desired    RKECluster, RKEControlPlane, Cluster,
//	 credentials)                      templates, MachineDeployments, health checks
//
// All functions are pure, without client, clock or randomness. The same input gives the same objects in the same order,
// byte for byte. The names of machine templates contain a hash of their content, and a different template replaces
// machines.
//
// Three rules matter most for changes of this package:
//
//   - A Cluster with an error generates no objects. Validate names the field and what would be right. Existing objects
//     stay unchanged.
//   - A machine is replaced only when the user edits its machine config. Machine templates contain neither the version
//     nor the configuration of the distribution.
//   - Cluster API's defaulting webhooks may be absent, so MachineDeployments set selector, strategy, surge and
//     replicas.
package topology

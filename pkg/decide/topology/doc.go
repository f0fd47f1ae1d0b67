// Package topology turns one provisioning Cluster into the Cluster API objects
// that stand for it.
//
//	                      ┌ Ownership  may we act on it, or does another manager?
//	Cluster + facts ──────┼ Prepare    what its own metadata and pools still lack
//	(machine configs,     ├ Validate   what is wrong with it, field by field
//	 driver schemas,      └ Desired    RKECluster, RKEControlPlane, Cluster,
//	 credentials)                      templates, MachineDeployments, health checks
//
// Everything is a function from a value to a value: no client, clock or
// randomness. The same input gives the same objects in the same order, byte for
// byte, because the names of machine templates contain a hash of their content
// and a different template replaces machines.
//
// Three rules matter most to those who change this package:
//
//   - Nothing is generated from a Cluster with an error. Validate names the field
//     and what would be right; what exists already stays as it is.
//   - A machine is replaced only when its machine config was edited. No version
//     and no configuration of the distribution ever reaches a machine template.
//   - There may be no Cluster API webhooks that fill in defaults, so
//     MachineDeployments come with selector, strategy, surge and replicas set.
package topology

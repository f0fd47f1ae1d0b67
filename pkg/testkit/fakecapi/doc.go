// Package fakecapi plays Cluster API's core controllers on the API server in memory, as far as a provider can tell: it
// writes the fields, labels, owner references and finalizers that the core writes, in the order in which it does, and waits for
// what it waits for.
//
//	Clusters            adopt infrastructure and control plane, copy the endpoint, follow their state; are deleted in order:
//	                    pools, machines, control plane, infrastructure
//	MachineDeployments  keep one MachineSet for each machine template, and move machines to the newest
//	MachineSets         make machines of the templates of infrastructure and bootstrap
//	Machines            adopt both halves, copy the bootstrap data's name, addresses and provider ID, and find their node by
//	                    its provider ID; when deleted they wait for hooks, then remove the infrastructure, the bootstrap
//	                    configuration and the node, in this order
//
// It looks at everything within a tenth of a second after a write, and writes only what changes. The contract
// tests tell the same stories with the real core, so that this package cannot drift from it unnoticed.
package fakecapi

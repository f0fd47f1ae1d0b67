// Package fakecapi simulates Cluster API's core controllers on the API server in memory, as far as a provider can
// observe them. It writes the same fields, labels, owner references and finalizers in the same order as the core, and
// waits for the same events.
//
//	Clusters            adopt infrastructure and control plane, copy the endpoint, follow their state. Deletion order:
//	                    pools, machines, control plane, infrastructure
//	MachineDeployments  keep one MachineSet for each machine template, and move machines to the newest
//	MachineSets         create machines from the templates of infrastructure and bootstrap
//	Machines            adopt both halves, copy the bootstrap data's name, addresses and provider ID, and find their
//	                    node by its provider ID. Deleted machines wait for hooks, then remove the infrastructure,
//	                    the bootstrap configuration and the node, in this order
//
// The core reads all objects within a tenth of a second after a write, and writes only changes. The contract tests run
// the same stories with the real core, so they detect differences between this package and the core.
package fakecapi

// Package capi runs Cluster API's core controllers inside Drover's process, so that one program is a whole management
// plane. It is the only package that imports them.
//
//	core, err := capi.New(ctx, config, capi.Options{Log: log})     // nothing runs yet
//	clients, err := clients.New(config, clients.Options{WrapCaches: core.WrapCaches})
//	go core.Start(ctx)                                             // until ctx ends
//	err = core.WaitForSync(ctx)
//
// Particular to this package:
//
//   - Drover's handlers read Cluster API's kinds from the manager's informers (WrapCaches) and have no other cache of
//     them. The endpoints have their own caches, for example of Machines, because those outlive a term. Managed fields
//     stay in the manager's cache, because Cluster API's rollouts need them.
//   - There are no admission webhooks. The creator of a MachineDeployment sets the defaults of the webhooks; package
//     topology does.
//   - Connections to clusters are Drover's own (package clustercache). They use the tunnel, and come and go with its
//     agents. A cluster that cannot be reached yet is tried every second instead of every thirty. The longer delay
//     would be most of the startup time of a new cluster.
//   - A MachineDeployment's template has neither version nor configuration. These controllers therefore have no reason
//     to replace a node, and behave like a stock core that runs in place of this one (--capi=external).
//   - A thrifty core holds back statuses for which nothing waits (package hold). Drover's handlers do not see them
//     earlier than others.
//   - The queues always end (package priority), so they do not delay a leader that gives up its lease.
//
// Feature gates are process-wide in Cluster API. This package leaves them at their defaults. Only a thrifty core turns
// one off while it exists, and replaces what the gate does (package thrift).
package capi

// Package capi runs Cluster API's core controllers inside our process, so that one program is enough for a whole management
// plane. It is the only package that imports them.
//
//	core, err := capi.New(ctx, config, capi.Options{Log: log})     // nothing runs yet
//	clients, err := clients.New(config, clients.Options{WrapCaches: core.WrapCaches})
//	go core.Start(ctx)                                             // until ctx ends
//	err = core.WaitForSync(ctx)
//
// What is particular here:
//
//   - Our handlers read Cluster API's kinds from the manager's informers (WrapCaches) and have no cache of them beside those. (The endpoints' caches, of
//     Machines among others, live longer than a term and are their own.) Managed fields stay in that cache: Cluster API's own bookkeeping of rollouts needs them.
//   - There are no admission webhooks. Whoever makes a MachineDeployment sets what a webhook would default; package
//     topology does.
//   - Connections to clusters are our own (package clustercache): they go through the tunnel, come and go with its agents, and a cluster that cannot be
//     reached yet is tried again every second instead of every thirty: that is most of the time a new cluster would otherwise take.
//   - A MachineDeployment's template carries neither version nor configuration, so these controllers have no reason to replace a
//     node, and behave like any stock core that runs beside Drover instead (--capi=external).
//
// Feature gates are process-wide in Cluster API; this package leaves them at their defaults.
package capi

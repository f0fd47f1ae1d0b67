// Package fleetworkspace keeps a namespace for each FleetWorkspace. Package decide/fleet has its objects: the
// namespace, and the rights of the creator of the FleetWorkspace.
//
// Drover manages only a namespace that it created itself, with a plain create. It leaves alone a namespace that existed
// before, and one whose FleetWorkspace has annotation provisioning.cattle.io/managed "false". It gives the creator no
// rights there.
//
// A namespace takes everything in it along when it is deleted. So a finalizer keeps the FleetWorkspace, and with it the
// namespace, until the namespace holds no clusters and is no workspace of one. The condition names them. The finalizer
// exists before the namespace.
//
// A namespace with Fleet Clusters or Bundles and without a FleetWorkspace gets one that is not managed, for user
// interfaces that list workspaces.
//
// While another manager runs here, it keeps the FleetWorkspaces with the same marks. Drover then continues only the
// deletions that its finalizer holds.
//
// The controller acts while Fleet's CRDs are established. Without Fleet, a new FleetWorkspace waits, and a deletion
// continues.
//
// # Wake-ups
//
// Object: FleetWorkspace. Woken by: Namespace, Cluster (in the namespace, or of the workspace), CAPI Cluster,
// CustomResourceDefinition (Fleet's). Each Fleet Cluster and each Bundle wakes the FleetWorkspace of its namespace too.
package fleetworkspace

// Package bootstrap gives every machine of a cluster what it needs to become a node, from its RKEBootstrap:
//
//   - the plan channel: the Secret that the machine's plan will be in, and the account with which the node's agent reads and
//     updates that one Secret;
//   - the bootstrap identity: an account without any rights, whose token's digest the machine presents once to be given the
//     account of the plan channel;
//   - the bootstrap data: the script with which the machine starts, in a Secret that Cluster API and package
//     machineprovision take up.
//
// Everything belongs to the RKEBootstrap and goes with it. The data are written once: changing the script of a machine that
// has started changes nothing.
//
// The package also keeps etcd machines from going before their member has left the cluster, by an annotation that Cluster
// API waits for (hook.go), and ends the use of bootstrap tokens (token.go).
//
// # Wake-ups
//
// Object: RKEBootstrap, and the Secret with a machine's token. Woken by: Machine, Cluster, CAPI Cluster,
// RKEControlPlane, ServiceAccount, Secret (plan, token, data), Role, RoleBinding.
package bootstrap

// Package bootstrap gives every machine of a cluster what it needs to become a node, from its RKEBootstrap:
//
//   - the plan channel: the Secret for the machine's plan, and the service account with which the node's agent reads
//     and updates that Secret;
//   - the bootstrap identity: a service account without any rights. The machine presents the digest of its token once,
//     and gets the account of the plan channel;
//   - the bootstrap data: the script with which the machine starts, in a Secret that Cluster API and package
//     machineprovision use.
//
// The RKEBootstrap owns all of it, so all of it is deleted with the RKEBootstrap. The data are written once, because a
// machine that has started ignores a new script.
//
// The package also keeps an etcd machine until its member has left the cluster, with an annotation that Cluster API
// waits for (hook.go). It also invalidates bootstrap tokens (token.go).
//
// # Wake-ups
//
// Object: RKEBootstrap, and the Secret with a machine's token. Woken by: Machine, Cluster, CAPI Cluster,
// RKEControlPlane, ServiceAccount, Secret (plan, token, data), Role, RoleBinding.
package bootstrap

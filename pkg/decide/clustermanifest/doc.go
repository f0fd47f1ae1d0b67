// Package clustermanifest renders what the agent inside a cluster is installed with.
//
//	Namespace cattle-system ─ ServiceAccount cattle ─ Deployment cattle-cluster-agent
//	                               │                      └─ Secret cattle-credentials-<key>: where the server is, and the registration token
//	                               └─ ClusterRole drover-cluster-agent: impersonate, and nothing else
//	ClusterRoleBinding drover-cluster-admin: group system:drover:cluster-admin ─► cluster-admin
//
// Where spec.localClusterAuthEndpoint is enabled, RenderAuth has what answers API servers about the tokens for it, which comes by the tunnel alone:
//
//	DaemonSet drover-cluster-auth, on servers ─ ConfigMap drover-cluster-auth: public keys
//
// Names are those that users and tools look for in clusters that Rancher manages.
// (docs/wire/endpoints.md#manifest-of-the-agent.) Rights are not: the agent's account may impersonate, and is nobody by
// itself. Whom it impersonates the server says, by request; Drover itself is a member of the group that is bound to
// cluster-admin here, and loses its rights with that binding, without the agent noticing. The account's token is
// projected into the pod and good for an hour; there is none in a Secret.
//
// The agent of a cluster that Drover makes has to run before the cluster has a network: HostNetwork. Everywhere else the pod keeps to the
// "restricted" standard of pod security.
package clustermanifest

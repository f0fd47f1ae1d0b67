// Package clustermanifest renders the objects that install the agent inside a cluster.
//
//	Namespace cattle-system ─ ServiceAccount cattle ─ Deployment cattle-cluster-agent
//	                               │               └─ Secret cattle-credentials-<key>: server URL, registration token
//	                               └─ ClusterRole drover-cluster-agent: impersonate, and nothing else
//	ClusterRoleBinding drover-cluster-admin: group system:drover:cluster-admin ─► cluster-admin
//
// Where spec.localClusterAuthEndpoint is enabled, RenderAuth renders the program that verifies tokens for API servers.
// Drover installs it through the tunnel:
//
//	DaemonSet drover-cluster-auth, on servers ─ ConfigMap drover-cluster-auth: public keys
//
// Users and tools look for these names in clusters that Rancher manages (docs/wire/endpoints.md#manifest-of-the-agent).
// The rights are different. The agent's account may impersonate users, and has no other right. The server names the
// impersonated user in each request. Drover itself is a member of the group that is bound to cluster-admin here. It
// loses its rights with that binding, and the agent does not notice. The account's token is projected into the pod and
// lives for an hour; no Secret contains it.
//
// The agent of a cluster that Drover makes has to run before the cluster has a network: HostNetwork. In all other
// clusters the pod complies with the "restricted" standard of pod security.
package clustermanifest

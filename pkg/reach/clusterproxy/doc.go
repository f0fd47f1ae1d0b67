// Package clusterproxy lets people and programs reach the API servers of downstream clusters through Drover, at
// /k8s/clusters/ID/…, whatever is between them. (docs/wire/endpoints.md#proxy.)
//
// A request goes through these steps, and the first that says no ends it with a Kubernetes Status that tells nothing internal:
//
//   - splitPath finds the cluster in the path, on its escaped form: nothing is cleaned, decoded or redirected.
//   - authenticator finds out who asks: a token of ours (Issue), a token that the management cluster knows (TokenReview), a client certificate.
//     Or the host does, and then only it. Nobody is anonymous.
//   - authorizer asks the management cluster whether the caller may get the Cluster. Who may not is told the same, byte for byte, whether the
//     cluster exists or not.
//   - decide makes of the caller, and of what it asks to impersonate, the identity that the request has downstream, and the questions that the
//     management cluster has to answer with yes first. It is a pure function. The downstream API server does the rest, with its own RBAC.
//   - forward streams the request and its answer.
//
// # Names of two domains
//
// The management cluster and a downstream cluster are two domains of trust, and the names that Kubernetes gives a meaning itself mean something else
// in each of them. So names without the prefix "system:" are passed as they are, and the others are not:
//
//	management cluster                      downstream
//	user  system:serviceaccount:NS:NAME     system:drover:serviceaccount:NS:NAME
//	group system:serviceaccounts[:NS]       system:drover:serviceaccounts[:NS]
//	user  system:NAME                       system:drover:user:NAME
//	group system:authenticated              as it is, and system:unauthenticated, too
//	group system:…, kubeadm:…               left out; when it is asked for by impersonation: refused
//	extra of kubernetes.io and k8s.io       likewise
//
// No two users have the same name downstream. Two identities come from Drover itself: the machine identity of a cluster (system:provisioning:NS:NAME), and the group
// system:drover:cluster-admin, which the agent's manifest binds to cluster-admin. Who may impersonate that group in the management cluster gets it by asking for it.
//
// # Tokens for authorized endpoints
//
// Below EndpointTokensPrefix the same callers get, for the clusters that they may reach, a token that opens one cluster without Drover (package endpointtoken).
// It names them as the cluster knows them, by the table above, whatever PassSystemGroups says. Who shows a token of ours, or asks to be somebody else, gets
// none: it would be good for longer than what it was made from. Below EndpointsPrefix they are told where the servers of that endpoint are.
//
// # What it takes to serve it
//
// The handler must see the path as it came: do not put it below http.ServeMux, which cleans paths. It lifts the connection's read and write deadlines for
// requests that it forwards, and sets its own.
package clusterproxy

// Package clusterproxy gives users and programs access to the API servers of downstream clusters through Drover, at
// /k8s/clusters/ID/…, even if the clusters have no incoming connection. (docs/wire/endpoints.md#proxy.)
//
// A request passes these steps. The first refusal ends it with a Kubernetes Status that reveals no internals.
//
//   - splitPath finds the cluster in the escaped path. It cleans, decodes and redirects nothing.
//   - authenticator identifies the caller: by a token of Drover's own (Issue), a token of the management cluster
//     (TokenReview), or a client certificate. If the host program provides an authenticator, only that one counts.
//     Anonymous callers are refused.
//     A certificate does not count for requests of foreign pages in a browser.
//   - authorizer asks the management cluster whether the caller may get the Cluster. Without access, the refusal is
//     identical, byte for byte, for existing and missing clusters.
//   - decide derives the downstream identity from the caller and the impersonation it asks for. It also returns the
//     reviews that the management cluster must allow first. It is a pure function. The downstream API server does the
//     rest with its own RBAC.
//   - fairQueue gives the request a slot. Namespaces, clusters and callers share the slots. Long-running requests have
//     a limiter instead.
//   - forward streams the request and its answer. While a long-running request is open, guard repeats the steps of the
//     authenticator, the authorizer and decide.
//
// # Names of two domains
//
// The management cluster and a downstream cluster are two trust domains. Names with a built-in meaning in Kubernetes
// mean something different in each. So names without the prefix "system:" pass unchanged, and the others are
// translated:
//
//	management cluster                      downstream
//	user  system:serviceaccount:NS:NAME     system:drover:serviceaccount:NS:NAME
//	group system:serviceaccounts[:NS]       system:drover:serviceaccounts[:NS]
//	user  system:NAME                       system:drover:user:NAME
//	group system:authenticated              unchanged, also system:unauthenticated
//	group system:…, kubeadm:…               omitted; refused when requested by impersonation
//	extra of kubernetes.io and k8s.io       likewise
//
// Two users never have the same name downstream. Drover itself assigns two identities. One is the machine identity of a
// cluster (system:provisioning:NS:NAME). The other is the group system:drover:cluster-admin, which the agent's manifest
// binds to cluster-admin. A user who may impersonate that group in the management cluster gets it by asking for it.
//
// # Tokens for authorized endpoints
//
// Below EndpointTokensPrefix the same callers get a token for each cluster that they may reach. It opens that cluster
// without Drover (package endpointtoken). The token contains the caller's downstream identity according to the table
// above, independent of PassSystemGroups. Callers with a token of Drover's own, and callers that ask for impersonation,
// are refused, because the new token would outlive its basis. Below EndpointsPrefix the callers get the addresses of
// the endpoint's servers.
//
// # Unread answers
//
// An answer that its client does not read holds up to 320 KiB here: the window of its stream in the tunnel, and buffers.
// Options.Unread ends such requests, because clients may have thousands of them. Requests without a time limit also end
// when one write is blocked for a minute: that client reads less than 32 KiB in a minute, or nothing.
//
// # Serving it
//
// The handler needs the original path: do not put it below http.ServeMux, which cleans paths. For requests that it
// forwards it replaces the connection's read and write deadlines with its own.
package clusterproxy

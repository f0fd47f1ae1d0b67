// Package endpointtoken issues and verifies the tokens for the authorized endpoint of a cluster
// (spec.localClusterAuthEndpoint), by which users reach it without Drover.
//
//	management cluster                                  the cluster
//	Secret NAME-endpoint-keys: Keys ─ Sign ─► token ─► its API server ─ TokenReview ─► drover cluster-auth: Trust.Verify
//	            └── Trust, public keys only ── tunnel ──► ConfigMap drover-cluster-auth ───────┘
//
// A token is a JWT for one user of one cluster. It contains the user's downstream identity. Each cluster has its own
// keys, and its identifier is the audience. The token contains no permissions: the cluster's RBAC decides. The cluster
// cannot create tokens.
//
// All functions are pure: randomness and time are parameters.
package endpointtoken

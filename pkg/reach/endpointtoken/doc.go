// Package endpointtoken decides about the tokens with which users reach a cluster at its authorized endpoint (spec.localClusterAuthEndpoint), without Drover.
//
//	management cluster                                     the cluster
//	Secret NAME-endpoint-keys: Keys ── Sign ──► token ──► its API server ─ TokenReview ─► drover cluster-auth: Trust.Verify
//	            └── Trust, public keys only ── tunnel ──► ConfigMap drover-cluster-auth ──────────┘
//
// A token is a JWT that names one user, as the cluster knows him through Drover, and opens one cluster: each has keys of its own, and its identifier is the
// audience. It says nothing about what the user may do there, which the cluster decides. Nothing in the cluster can make one.
//
// Everything here is a function of values: randomness and time come in.
package endpointtoken

// Package endpointauth is the program behind the authorized endpoint of a cluster (drover cluster-auth). It runs on the
// cluster's servers. The API server there sends it a TokenReview to identify the bearer of a token
// (--authentication-token-webhook-config-file).
//
// It uses one file, which contains the public keys of the cluster's tokens (package endpointtoken). It has no
// credential, contacts no other service, and works while Drover is unavailable. It rereads the file after changes.
// Without a readable file all tokens are refused. It listens only on the loopback address. The API server of the same
// host connects without TLS, as the servers' plans specify.
package endpointauth

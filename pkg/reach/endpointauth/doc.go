// Package endpointauth is the program behind the authorized endpoint of a cluster, on its servers (drover cluster-auth): the API server there asks it whose a
// token is, with a TokenReview, as --authentication-token-webhook-config-file tells it to.
//
// It answers from one file, in which are the public keys of the cluster's tokens (package endpointtoken): it has no credential, asks nobody, and goes on while
// Drover is away. The file is read again when it has changed; without one that can be read no token is good. It listens on the loopback address alone,
// where the API server of the same host asks it without TLS, because the plans of servers say so.
package endpointauth

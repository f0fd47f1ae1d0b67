package clusterproxy

import corev1 "k8s.io/api/core/v1"

// Tokens of Drover's own are Secrets. A Secret contains the digest of a bearer token, its purpose and its expiry. The
// token itself is not stored. Names and keys are stored: do not change them.
const (
	// TokenSecretPrefix is the prefix of the names of token Secrets. The token's digest determines the rest.
	TokenSecretPrefix = "proxy-token-"
	// TokenSecretType is the type of the Secrets.
	TokenSecretType corev1.SecretType = "drover.io/proxy-token"
	// TokenClusterLabel is the identifier of the token's cluster.
	TokenClusterLabel = "drover.io/proxy-token-cluster"
	// BearerPrefix is the prefix of Drover's own tokens. Tokens with it are never sent to the management cluster.
	BearerPrefix = "drover-token-"
	// TokenIndex is the name of TokenIndexer in the cache of Secrets.
	TokenIndex = "clusterproxy.drover.io/token"
	// UserPrincipalPrefix is the prefix of the principal of a token for a user of the management cluster. The user name
	// follows.
	UserPrincipalPrefix = "user://"

	digestKey    = "digest"    // hex SHA-256 of the bearer token
	clusterKey   = "cluster"   // identifier of the token's only cluster
	principalKey = "principal" // identity of the token's bearer
	groupsKey    = "groups"    // JSON list of the user's groups
	expiresKey   = "expires"   // RFC 3339; a token without it is invalid

	bearerBytes = 32
)

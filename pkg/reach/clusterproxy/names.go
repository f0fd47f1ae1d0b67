package clusterproxy

import corev1 "k8s.io/api/core/v1"

// Tokens of ours are Secrets that hold the digest of a bearer token, what it is for and until when. The token itself is nowhere but with whom it was given
// to. Names and keys are stored: do not change them.
const (
	// TokenSecretPrefix begins the names of the Secrets of tokens. The rest is drawn.
	TokenSecretPrefix = "proxy-token-"
	// TokenSecretType is the type of the Secrets.
	TokenSecretType corev1.SecretType = "drover.io/proxy-token"
	// TokenClusterLabel holds the identifier of the cluster that a token is for.
	TokenClusterLabel = "drover.io/proxy-token-cluster"
	// BearerPrefix begins every token of ours. One that begins so is shown to nobody else.
	BearerPrefix = "drover-token-"
	// TokenIndex is the name under which TokenIndexer has to be added to the cache of Secrets.
	TokenIndex = "clusterproxy.drover.io/token"
	// UserPrincipalPrefix begins the principal of a token that stands for a user of the management cluster; its name follows.
	UserPrincipalPrefix = "user://"

	digestKey    = "digest"    // hex SHA-256 of the bearer token
	clusterKey   = "cluster"   // identifier of the only cluster it opens
	principalKey = "principal" // whom it stands for
	groupsKey    = "groups"    // JSON list of the user's groups
	expiresKey   = "expires"   // RFC 3339; a token without it is none

	bearerBytes = 32
)

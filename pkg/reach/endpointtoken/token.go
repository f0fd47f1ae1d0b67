package endpointtoken

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/pkg/decide/clustermanifest"
)

const (
	// Issuer is the issuer of these tokens. It is no URL, because tokens remain valid when Drover's address changes.
	Issuer = "drover.io/cluster-endpoint"
	// CredentialIDExtra is the user extra in which Kubernetes stores the identifier of a credential. Audit logs contain
	// it.
	CredentialIDExtra = "authentication.kubernetes.io/credential-id"

	// longest is longer than any token, in bytes. API servers accept one megabyte of headers.
	longest = 64 << 10
)

// Audience is the audience of one cluster's tokens. A later management cluster of the same name has another audience.
func Audience(id string, uid types.UID) string { return "drover.io/cluster/" + id + "/" + string(uid) }

// Claims are the claims of a token.
type Claims struct {
	// ID identifies a token, for example in audit logs.
	ID string
	// Audience is the cluster's audience.
	Audience string
	// User is the bearer's downstream identity.
	User authenticationv1.UserInfo
	// Issued and Expires limit the token's validity.
	Issued, Expires time.Time
}

// userClaims are the non-standard claims.
type userClaims struct {
	UID    string              `json:"uid,omitempty"`
	Groups []string            `json:"groups,omitempty"`
	Extra  map[string][]string `json:"extra,omitempty"`
}

// Sign creates a token. It refuses claims that Verify would refuse.
func (k Keys) Sign(c Claims) (string, error) {
	if life := c.Expires.Sub(c.Issued); c.ID == "" || c.Audience == "" || life <= 0 || life > MaxLife {
		return "", errors.New("sign a token: it must have an ID, an audience, and a lifetime " +
			"between 0 and " + MaxLife.String())
	}
	if !mayBeNamed(c.User) {
		return "", errors.New("sign a token: the user or a group is reserved")
	}
	id, err := keyID(publicOf(k.current))
	if err != nil {
		return "", err
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA,
		Key: jose.JSONWebKey{Key: k.current, KeyID: id}}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	own := userClaims{UID: c.User.UID, Groups: c.User.Groups}
	for key, values := range c.User.Extra {
		if own.Extra == nil {
			own.Extra = map[string][]string{}
		}
		own.Extra[key] = values
	}
	token, err := jwt.Signed(signer).Claims(own).Claims(jwt.Claims{
		Issuer: Issuer, Subject: c.User.Username, Audience: jwt.Audience{c.Audience}, ID: c.ID,
		IssuedAt: jwt.NewNumericDate(c.Issued), NotBefore: jwt.NewNumericDate(c.Issued),
		Expiry: jwt.NewNumericDate(c.Expires),
	}).Serialize()
	switch {
	case err != nil:
		return "", fmt.Errorf("sign a token: %w", err)
	case len(token) > longest:
		return "", ErrTooLong
	}
	return token, nil
}

// Errors of Sign and Verify. They contain no part of a token.
var (
	// ErrTooLong means that the user has more groups than a token can contain.
	ErrTooLong = errors.New("the user has too many groups, or too long names of groups, for a token")
	// ErrForeign means that the text is no token of this kind.
	ErrForeign = errors.New("the token is not for the endpoint of a cluster")
	// ErrUnknown means that no key of this cluster signed the token, or that it was changed.
	ErrUnknown = errors.New("no key of this cluster signed the token")
	// ErrAudience means that the token is for another cluster.
	ErrAudience = errors.New("the token is for another cluster")
	// ErrExpired means that the token has expired or is not valid yet.
	ErrExpired = errors.New("the token has expired or is not valid yet")
	// ErrUser means that the token names a forbidden user or group.
	ErrUser = errors.New("the token contains a reserved user or group")
)

// algorithms are the accepted signature algorithms. With a single one, a token cannot choose.
var algorithms = []jose.SignatureAlgorithm{jose.EdDSA}

// IsOne reports whether a text claims to be a token of this kind. It verifies nothing.
func IsOne(token string) bool {
	if len(token) > longest {
		return false
	}
	// Most tokens are of other kinds. A search for the issuer, which Sign writes unescaped, rejects them without
	// parsing.
	_, claims, _ := strings.Cut(token, ".")
	claims, _, _ = strings.Cut(claims, ".")
	said, err := base64.RawURLEncoding.DecodeString(claims)
	if err != nil || !bytes.Contains(said, []byte(Issuer)) {
		return false
	}
	_, ok := parse(token)
	return ok
}

func parse(token string) (*jwt.JSONWebToken, bool) {
	if len(token) > longest || strings.Count(token, ".") != 2 {
		return nil, false
	}
	parsed, err := jwt.ParseSigned(token, algorithms)
	if err != nil || len(parsed.Headers) != 1 {
		return nil, false
	}
	var claims jwt.Claims
	err = parsed.UnsafeClaimsWithoutVerification(&claims)
	return parsed, err == nil && claims.Issuer == Issuer
}

// Verify returns the user of a token of this cluster. Its errors are listed above.
func (t *Trust) Verify(token string, now time.Time) (authenticationv1.UserInfo, error) {
	var none authenticationv1.UserInfo
	parsed, ok := parse(token)
	if !ok {
		return none, ErrForeign
	}
	found := t.set.Key(parsed.Headers[0].KeyID)
	if len(found) != 1 {
		return none, ErrUnknown
	}
	var claims jwt.Claims
	var own userClaims
	if err := parsed.Claims(found[0].Key, &claims, &own); err != nil {
		return none, ErrUnknown
	}
	if err := t.check(claims, now); err != nil {
		return none, err
	}
	user := authenticationv1.UserInfo{Username: claims.Subject, UID: own.UID, Groups: own.Groups,
		Extra: map[string]authenticationv1.ExtraValue{}}
	for key, values := range own.Extra {
		user.Extra[key] = values
	}
	user.Extra[CredentialIDExtra] = authenticationv1.ExtraValue{"JTI=" + claims.ID}
	if !mayBeNamed(user) {
		return none, ErrUser
	}
	return user, nil
}

// check validates the claims of a token with a valid signature.
func (t *Trust) check(claims jwt.Claims, now time.Time) error {
	if claims.Expiry == nil || claims.IssuedAt == nil || claims.ID == "" ||
		claims.Expiry.Time().Sub(claims.IssuedAt.Time()) > MaxLife {
		return ErrExpired // or would never expire
	}
	if len(claims.Audience) != 1 || claims.Audience[0] != t.Audience || t.Audience == "" {
		return ErrAudience
	}
	if err := claims.ValidateWithLeeway(jwt.Expected{Issuer: Issuer, Time: now}, leeway); err != nil {
		return ErrExpired
	}
	return nil
}

// Names with a built-in meaning for Kubernetes or Drover.
const (
	systemPrefix = "system:"
	droverPrefix = "system:drover:"
	adminGroup   = clustermanifest.AdminGroup
	everybody    = "system:authenticated"
)

// mayBeNamed reports whether a token may be for a user. Drover never passes Kubernetes' built-in names to a cluster,
// and its administrator group is not for users. A token with such a name would be a mistake, or made with a stolen key.
func mayBeNamed(user authenticationv1.UserInfo) bool {
	if user.Username == "" || strings.HasPrefix(user.Username, systemPrefix) &&
		!strings.HasPrefix(user.Username, droverPrefix) {
		return false
	}
	return !slices.ContainsFunc(user.Groups, func(group string) bool {
		system := strings.HasPrefix(group, systemPrefix) && !strings.HasPrefix(group, droverPrefix) &&
			group != everybody
		return group == "" || system || group == adminGroup || strings.HasPrefix(group, "kubeadm:")
	})
}

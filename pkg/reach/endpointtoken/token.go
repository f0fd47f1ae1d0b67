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
)

const (
	// Issuer is what tokens of this kind say that they are from. It is no address: they are good as long as the keys are, wherever Drover is reached.
	Issuer = "drover.io/cluster-endpoint"
	// CredentialIDExtra is what Kubernetes calls the identifier of a credential among the extras of a user, where audit logs have it.
	CredentialIDExtra = "authentication.kubernetes.io/credential-id"

	// longest is more than any token has, in bytes. API servers take headers of a megabyte.
	longest = 64 << 10
)

// Audience is that of the tokens of one cluster: a management cluster of the same name that comes later is another one.
func Audience(id string, uid types.UID) string { return "drover.io/cluster/" + id + "/" + string(uid) }

// Claims are what a token says.
type Claims struct {
	// ID tells tokens apart, in audit logs for example.
	ID string
	// Audience is that of the cluster.
	Audience string
	// User is who shows it, as the cluster knows him.
	User authenticationv1.UserInfo
	// Issued and Expires are from when until when it is good.
	Issued, Expires time.Time
}

// userClaims are those that no standard has.
type userClaims struct {
	UID    string              `json:"uid,omitempty"`
	Groups []string            `json:"groups,omitempty"`
	Extra  map[string][]string `json:"extra,omitempty"`
}

// Sign makes a token. It refuses what no Verify would accept.
func (k Keys) Sign(c Claims) (string, error) {
	if life := c.Expires.Sub(c.Issued); c.ID == "" || c.Audience == "" || life <= 0 || life > MaxLife {
		return "", errors.New("sign a token: it must have an ID, an audience, and a life of more than nothing and at most " + MaxLife.String())
	}
	if !mayBeNamed(c.User) {
		return "", errors.New("sign a token: no token may name that user or one of the groups")
	}
	id, err := keyID(publicOf(k.current))
	if err != nil {
		return "", err
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: k.current, KeyID: id}}, (&jose.SignerOptions{}).WithType("JWT"))
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
		IssuedAt: jwt.NewNumericDate(c.Issued), NotBefore: jwt.NewNumericDate(c.Issued), Expiry: jwt.NewNumericDate(c.Expires),
	}).Serialize()
	switch {
	case err != nil:
		return "", fmt.Errorf("sign a token: %w", err)
	case len(token) > longest:
		return "", ErrTooLong
	}
	return token, nil
}

// Errors of Sign and Verify. None holds anything of a token.
var (
	// ErrTooLong is for a user with more groups than a token can hold.
	ErrTooLong = errors.New("the user has more groups, or longer names of groups, than a token can hold")
	// ErrForeign is for what is no token of this kind.
	ErrForeign = errors.New("this is no token of a cluster's endpoint")
	// ErrUnknown is for one that no key of this cluster has signed, or that was changed.
	ErrUnknown = errors.New("the token is not signed with a key of this cluster")
	// ErrAudience is for one of another cluster.
	ErrAudience = errors.New("the token is for another cluster")
	// ErrExpired is for one whose time is over, or has not come.
	ErrExpired = errors.New("the token has expired, or is not good yet")
	// ErrUser is for one that names whom no token may name.
	ErrUser = errors.New("the token names a user or a group that no token may name")
)

// algorithms are those that tokens are signed with. A list of one leaves a token no choice.
var algorithms = []jose.SignatureAlgorithm{jose.EdDSA}

// IsOne reports whether a text says of itself that it is a token of this kind. Nothing is verified.
func IsOne(token string) bool {
	if len(token) > longest {
		return false
	}
	// Most tokens are somebody else's, and are told apart without reading all that they say. Sign writes the issuer as it is.
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

// Verify returns whose a token is, if it is one of this cluster. The error is one of those above.
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
	user := authenticationv1.UserInfo{Username: claims.Subject, UID: own.UID, Groups: own.Groups, Extra: map[string]authenticationv1.ExtraValue{}}
	for key, values := range own.Extra {
		user.Extra[key] = values
	}
	user.Extra[CredentialIDExtra] = authenticationv1.ExtraValue{"JTI=" + claims.ID}
	if !mayBeNamed(user) {
		return none, ErrUser
	}
	return user, nil
}

// check looks at what a token says that is signed.
func (t *Trust) check(claims jwt.Claims, now time.Time) error {
	if claims.Expiry == nil || claims.IssuedAt == nil || claims.ID == "" || claims.Expiry.Time().Sub(claims.IssuedAt.Time()) > MaxLife {
		return ErrExpired // or never would
	}
	if len(claims.Audience) != 1 || claims.Audience[0] != t.Audience || t.Audience == "" {
		return ErrAudience
	}
	if err := claims.ValidateWithLeeway(jwt.Expected{Issuer: Issuer, Time: now}, leeway); err != nil {
		return ErrExpired
	}
	return nil
}

// Names with a meaning to Kubernetes, or to Drover.
const (
	systemPrefix = "system:"
	droverPrefix = "system:drover:"
	adminGroup   = "system:drover:cluster-admin"
	everybody    = "system:authenticated"
)

// mayBeNamed reports whether a token may stand for a user. Names that Kubernetes gives a meaning itself are none that Drover passes on to a cluster, and
// Drover's own administrator is no user: such a token would be a mistake here, or made with a key that was stolen.
func mayBeNamed(user authenticationv1.UserInfo) bool {
	if user.Username == "" || strings.HasPrefix(user.Username, systemPrefix) && !strings.HasPrefix(user.Username, droverPrefix) {
		return false
	}
	return !slices.ContainsFunc(user.Groups, func(group string) bool {
		system := strings.HasPrefix(group, systemPrefix) && !strings.HasPrefix(group, droverPrefix) && group != everybody
		return group == "" || system || group == adminGroup || strings.HasPrefix(group, "kubeadm:")
	})
}

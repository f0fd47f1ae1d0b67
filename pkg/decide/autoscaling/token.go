package autoscaling

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TokenLife is the requested lifetime of the account's token. An API server may issue a shorter one.
const TokenLife = 7 * 24 * time.Hour

// Token is what a token of a service account says about itself. Its signature is not verified.
type Token struct {
	// Account is the UID of the service account.
	Account types.UID
	// IssuedAt and Expires limit the token.
	IssuedAt, Expires time.Time
}

// ErrToken means that a text is no token of a service account with an end.
var ErrToken = errors.New("not a token of a service account with an expiration time")

// ParseToken reads a token.
func ParseToken(token string) (Token, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return Token{}, ErrToken
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return Token{}, ErrToken
	}
	var claims struct {
		IssuedAt   int64 `json:"iat"`
		Expires    int64 `json:"exp"`
		Kubernetes struct {
			Account struct {
				UID types.UID `json:"uid"`
			} `json:"serviceaccount"`
		} `json:"kubernetes.io"`
	}
	if err := json.Unmarshal(raw, &claims); err != nil || claims.Expires <= claims.IssuedAt ||
		claims.Kubernetes.Account.UID == "" {
		return Token{}, ErrToken
	}
	return Token{Account: claims.Kubernetes.Account.UID, IssuedAt: time.Unix(claims.IssuedAt, 0),
		Expires: time.Unix(claims.Expires, 0)}, nil
}

// Renewal is when a token is replaced. Half of its lifetime is left then, so that the autoscaler keeps its access while
// Drover or the connection to the cluster is away.
func (t Token) Renewal() time.Time { return t.IssuedAt.Add(t.Expires.Sub(t.IssuedAt) / 2) }

package ui

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/pkg/decide/naming"
)

const (
	// identityAge is how long the UI relies on the answer who a caller is. The API server checks the token of each
	// request itself.
	identityAge = 30 * time.Second
	// knownCallers limits the cached answers. The oldest are dropped.
	knownCallers = 4096
	// maxReviews limits the questions to the API server that run at the same time.
	maxReviews    = 16
	reviewTimeout = 10 * time.Second
	// longestToken is longer than any real token, in bytes.
	longestToken = 16 << 10
)

// Anonymous returns a configuration with the address and the authority of another one, and without a credential. Its
// rate limit is no limit: the API server limits each user.
func Anonymous(config *rest.Config) *rest.Config {
	out := rest.AnonymousClientConfig(config)
	out.RateLimiter, out.QPS, out.Burst = nil, -1, 0
	return out
}

// caller is the user of a request.
type caller struct {
	user   string
	groups []string
	// id is a digest of the credential.
	id string
	// config reaches the management cluster as the caller.
	config *rest.Config
	// session is nil for a request with header Authorization.
	session *session
	// expires is zero for a credential without a known end.
	expires time.Time
}

// identity is what the API server says about a token.
type identity struct {
	user   string
	groups []string
}

// callers identifies callers.
type callers struct {
	base       *rest.Config
	localToken string
	known      *cache.LRUExpireCache
	asking     singleflight.Group
	reviews    chan struct{}
}

func newCallers(opts Options) (*callers, error) {
	base := rest.CopyConfig(opts.Config)
	base.RateLimiter, base.QPS, base.Burst = nil, -1, 0
	if opts.LocalToken == "" {
		base = Anonymous(opts.Config)
	}
	if _, err := rest.HTTPClientFor(base); err != nil {
		return nil, fmt.Errorf("connect to the management cluster: %w", err)
	}
	return &callers{base: base, localToken: opts.LocalToken, known: cache.NewLRUExpireCache(knownCallers),
		reviews: make(chan struct{}, maxReviews)}, nil
}

// as returns the configuration of the user with a token. In local mode that is the user of the kubeconfig.
func (c *callers) as(token string) *rest.Config {
	config := rest.CopyConfig(c.base)
	if c.localToken == "" {
		config.BearerToken = token
	}
	return config
}

// identify returns the caller with a token. In local mode an empty token is one of a valid session.
func (c *callers) identify(ctx context.Context, token string) (*caller, error) {
	digest := naming.SHA256("ui caller " + token)
	out := &caller{id: digest, config: c.as(token), expires: expiryOf(token)}
	found, ok := c.known.Get(digest)
	if !ok {
		var err error
		if found, err = c.ask(ctx, digest, out.config); err != nil {
			return nil, err
		}
	}
	who := found.(identity)
	out.user, out.groups = who.user, who.groups
	return out, nil
}

// ask asks once for all requests that wait for the same answer.
func (c *callers) ask(ctx context.Context, digest string, config *rest.Config) (any, error) {
	asked := c.asking.DoChan(digest, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTimeout)
		defer cancel()
		who, err := c.review(ctx, config)
		if err == nil {
			c.known.Add(digest, who, identityAge)
		}
		return who, err
	})
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case result := <-asked:
		return result.Val, result.Err
	}
}

// review asks the API server who has a credential. Every authenticated user may ask that about itself.
func (c *callers) review(ctx context.Context, config *rest.Config) (identity, error) {
	select {
	case c.reviews <- struct{}{}:
		defer func() { <-c.reviews }()
	case <-ctx.Done():
		return identity{}, tooMany("too many users sign in at the same time; try again", 5*time.Second)
	}
	client, err := authenticationclient.NewForConfig(config)
	if err != nil {
		return identity{}, err
	}
	review, err := client.SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{},
		metav1.CreateOptions{})
	switch {
	case apierrors.IsUnauthorized(err), apierrors.IsForbidden(err):
		// An API server that accepts anonymous users forbids them to ask.
		return identity{}, unauthorized("the management cluster does not accept the token")
	case err != nil:
		return identity{}, fmt.Errorf("ask the management cluster who has the token: %w", err)
	}
	who := review.Status.UserInfo
	if who.Username == "" || who.Username == "system:anonymous" {
		return identity{}, unauthorized("the management cluster does not accept the token")
	}
	return identity{who.Username, who.Groups}, nil
}

// forget makes the next request of a caller ask again.
func (c *callers) forget(id string) { c.known.Remove(id) }

// isLocalToken compares with the token of local mode.
func (c *callers) isLocalToken(token string) bool {
	return c.localToken != "" && subtle.ConstantTimeCompare([]byte(token), []byte(c.localToken)) == 1
}

// callerOf returns the caller of a request: of header Authorization if there is one, else of the session.
func (u *ui) callerOf(r *http.Request) (*caller, error) {
	if values := r.Header["Authorization"]; len(values) > 0 {
		token, err := bearerOf(values)
		if err != nil {
			return nil, err
		}
		return u.callerWith(r.Context(), token)
	}
	if isForeign(r) {
		return nil, forbidden("the UI answers only its own pages")
	}
	content, err := u.sessions.read(r, time.Now())
	if errors.Is(err, errNoSession) {
		return nil, unauthorized("sign in first")
	}
	if err != nil {
		return nil, err
	}
	out, err := u.callers.identify(r.Context(), content.Token)
	if err != nil {
		return nil, err
	}
	out.session, out.expires = &content, content.expires()
	return out, nil
}

// callerWith returns the caller with a presented token.
func (u *ui) callerWith(ctx context.Context, token string) (*caller, error) {
	if !u.isLocal() {
		return u.callers.identify(ctx, token)
	}
	if !u.callers.isLocalToken(token) {
		return nil, unauthorized("the token is not the one that drover ui has printed")
	}
	return u.callers.identify(ctx, "")
}

func bearerOf(values []string) (string, error) {
	fields := strings.Fields(values[0])
	if len(values) != 1 || len(fields) != 2 || !strings.EqualFold(fields[0], "Bearer") {
		return "", unauthorized("header Authorization must be one bearer token")
	}
	return fields[1], checkToken(fields[1])
}

// checkToken refuses text that cannot be a token before the API server sees it.
func checkToken(token string) error {
	if token == "" || len(token) > longestToken || strings.ContainsFunc(token, func(r rune) bool {
		return r <= ' ' || r > '~'
	}) {
		return unauthorized("the token must be one word of at most 16 KiB")
	}
	return nil
}

// expiryOf returns when a token expires, zero if it does not say. The API server has verified the token.
func expiryOf(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}
	}
	var claims struct {
		Expires float64 `json:"exp"`
	}
	if json.Unmarshal(payload, &claims) != nil || claims.Expires <= 0 || claims.Expires > 1<<40 {
		return time.Time{}
	}
	return time.Unix(int64(claims.Expires), 0)
}

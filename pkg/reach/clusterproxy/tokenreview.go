package clusterproxy

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"

	"github.com/drover-io/drover/pkg/decide/naming"
)

// DefaultAudience is the audience of tokens for this proxy. (docs/wire/endpoints.md#proxy.)
const DefaultAudience = "drover-proxy"

const (
	badTokenFor = time.Second
	// goodBeforeFor is how long a token that was valid keeps access to the reserved review slots.
	goodBeforeFor = time.Hour
	// maxReviews limits concurrent reviews: separately for tokens that were valid before and for all others, which any
	// client can send.
	maxReviews = 64
	// maxStrangers limits the requests with other tokens that wait for a review.
	maxStrangers = 1024
)

// tokenReviews asks the management cluster to identify the bearers of tokens.
type tokenReviews struct {
	client    authenticationclient.TokenReviewInterface
	audiences []string
	answers   *memo[tokenAnswer]
	// known are digests of tokens that were valid. Other tokens compete only with each other.
	known                  *cache.LRUExpireCache
	knownRoom, strangeRoom chan struct{}
	strangers              chan struct{}
}

// tokenAnswer is the cached result of a review.
type tokenAnswer struct {
	good bool
	who  Identity
}

func newTokenReviews(client authenticationclient.TokenReviewInterface, audiences []string,
	goodFor time.Duration) *tokenReviews {
	t := &tokenReviews{
		client: client, audiences: audiences, known: cache.NewLRUExpireCache(memoSize),
		knownRoom: make(chan struct{}, maxReviews), strangeRoom: make(chan struct{}, maxReviews),
		strangers: make(chan struct{}, maxStrangers),
	}
	t.answers = newMemo(func(a tokenAnswer) time.Duration {
		if a.good {
			return goodFor
		}
		return badTokenFor
	})
	return t
}

// caller returns the bearer of a token. The error is errUnauthenticated, a refusal, or a failure of the management
// cluster.
func (t *tokenReviews) caller(ctx context.Context, token string) (Caller, error) {
	if _, ok := t.known.Get(naming.SHA256(token)); !ok {
		select {
		case t.strangers <- struct{}{}:
			defer func() { <-t.strangers }()
		default:
			return Caller{}, tooMany(rejectedTokens)
		}
	}
	answer, err := t.answers.get(ctx, token, func(ctx context.Context) (tokenAnswer, error) {
		return t.inTurn(ctx, token)
	})
	if err != nil {
		return Caller{}, err
	}
	if !answer.good {
		return Caller{}, errUnauthenticated
	}
	return known(Caller{Identity: answer.who})
}

// inTurn reviews a token, unless too many reviews are running. Any client can send tokens. The management cluster must
// review each one, and also serves Drover's controllers.
func (t *tokenReviews) inTurn(ctx context.Context, token string) (tokenAnswer, error) {
	digest, room := naming.SHA256(token), t.strangeRoom
	if _, ok := t.known.Get(digest); ok {
		room = t.knownRoom
	}
	select {
	case room <- struct{}{}:
		defer func() { <-room }()
	default:
		return tokenAnswer{}, tooMany(rejectedTokens)
	}
	answer, err := t.review(ctx, token)
	if err == nil && answer.good {
		t.known.Add(digest, struct{}{}, goodBeforeFor)
	}
	return answer, err
}

func (t *tokenReviews) review(ctx context.Context, token string) (tokenAnswer, error) {
	audiences := audiencesToAsk(token, t.audiences)
	answer, err := t.client.Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: audiences},
	}, metav1.CreateOptions{})
	if err != nil {
		return tokenAnswer{}, fmt.Errorf("ask the management cluster for the user of a token: %w", err)
	}
	return answerOf(answer.Status, audiences), nil
}

// answerOf evaluates a review that asked for audiences. An answer without audiences is for the API server's own
// audience.
func answerOf(status authenticationv1.TokenReviewStatus, asked []string) tokenAnswer {
	meant := len(asked) == 0 || slices.ContainsFunc(status.Audiences, func(audience string) bool {
		return slices.Contains(asked, audience)
	})
	if !status.Authenticated || !meant {
		return tokenAnswer{}
	}
	who := Identity{Name: status.User.Username, UID: status.User.UID, Groups: status.User.Groups}
	for key, values := range status.User.Extra {
		if who.Extra == nil {
			who.Extra = map[string][]string{}
		}
		who.Extra[key] = values
	}
	return tokenAnswer{good: true, who: who}
}

// audiencesToAsk returns ours if the token claims one of them. Otherwise it returns none, which means the API server's
// own audiences. The claim is not trusted: the API server verifies the token for the requested audiences.
func audiencesToAsk(token string, ours []string) []string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil
	}
	var claims struct {
		Audience json.RawMessage `json:"aud"`
	}
	if json.Unmarshal(payload, &claims) != nil {
		return nil
	}
	var many []string
	if json.Unmarshal(claims.Audience, &many) != nil {
		many = make([]string, 1)
		if json.Unmarshal(claims.Audience, &many[0]) != nil {
			return nil
		}
	}
	if slices.ContainsFunc(many, func(audience string) bool { return slices.Contains(ours, audience) }) {
		return ours
	}
	return nil
}

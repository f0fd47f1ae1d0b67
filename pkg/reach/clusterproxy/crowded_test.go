package clusterproxy

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/pkg/decide/naming"
)

// slowReviewer answers when let allows it.
type slowReviewer struct {
	tokenReviewer
	let chan struct{}
}

func (s slowReviewer) Create(ctx context.Context, review *authenticationv1.TokenReview,
	o metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	<-s.let
	return s.tokenReviewer.Create(ctx, review, o)
}

// Reviews of unknown tokens are limited. Known callers are neither refused nor delayed by them.
func TestTokenReviews_LimitsUnknownTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		token := w.user("jane")
		let := make(chan struct{}, 1)
		reviews := newTokenReviews(slowReviewer{tokenReviewer{w}, let}, nil, answerFor)
		ask := func(token string) (string, error) {
			caller, err := reviews.caller(t.Context(), token)
			return caller.Name, err
		}
		let <- struct{}{}
		if who, err := ask(token); who != "jane" || err != nil {
			t.Fatalf("got %q, %v", who, err)
		}
		var asking sync.WaitGroup
		for i := range maxReviews {
			asking.Go(func() {
				if _, err := ask(fmt.Sprint("stranger-", i)); !errors.Is(err, errUnauthenticated) {
					t.Errorf("an unknown token: %v", err)
				}
			})
		}
		synctest.Wait()
		var no *refusal
		if _, err := ask("one-more"); !errors.As(err, &no) || no.code != http.StatusTooManyRequests ||
			no.retryAfter == 0 {
			t.Errorf("another unknown token: %v", err)
		}
		if who, err := ask(token); who != "jane" || err != nil {
			t.Errorf("a cached token: %q, %v", who, err)
		}
		reviews.answers = newMemo(reviews.answers.keep) // as after ten seconds, when cached answers expire
		asking.Go(func() {
			if who, err := ask(token); who != "jane" || err != nil {
				t.Errorf("a token that was valid before: %q, %v", who, err)
			}
		})
		synctest.Wait()
		close(let)
		asking.Wait()
		if _, err := ask("one-more"); !errors.Is(err, errUnauthenticated) {
			t.Errorf("afterwards: %v", err)
		}
		if len(reviews.knownRoom)+len(reviews.strangeRoom) != 0 {
			t.Error("slots are not released")
		}
	})
}

// All requests with one unknown token share one review. The number of those that wait for it is limited too.
func TestTokenReviews_LimitsRequestsWithOneUnknownToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		reviews := newTokenReviews(slowReviewer{tokenReviewer{newWorld(t)}, let}, nil, answerFor)
		var asking sync.WaitGroup
		for range maxStrangers {
			asking.Go(func() {
				if _, err := reviews.caller(t.Context(), "stranger"); !errors.Is(err, errUnauthenticated) {
					t.Errorf("an unknown token: %v", err)
				}
			})
		}
		synctest.Wait()
		var no *refusal
		if _, err := reviews.caller(t.Context(), "stranger"); !errors.As(err, &no) ||
			no.code != http.StatusTooManyRequests {
			t.Errorf("one more request: %v", err)
		}
		close(let)
		asking.Wait()
		if len(reviews.strangers) > 0 {
			t.Error("places are not released")
		}
	})
}

// Users who watch a cluster leave streams for others, for other clusters, and for the machine identity.
func TestProxy_WatchesAreLimited(t *testing.T) {
	w := newWorld(t)
	tokens := map[string]string{}
	for _, name := range []string{"jane", "joe", "root"} {
		tokens[name] = w.user(name, "a", "b")
	}
	tokens["stranger"] = w.user("stranger")
	watched := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	w.cluster("a", watched)
	w.cluster("b", watched)
	secret, bearer, err := Issue("drover-system",
		Grant{Cluster: "c-m-a", Principal: naming.ProvisioningPrincipal("fleet-default", "a"),
			Expires: time.Now().Add(time.Hour)}, rand.Reader)
	check(t, err)
	w.secrets = append(w.secrets, secret)
	tokens["the machine identity"] = bearer
	w.options.MaxLongRunning, w.options.MaxLongRunningPerCaller = 3, 2
	server := w.proxy()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, step := range []struct {
		who, cluster string
		code         int
	}{
		{"stranger", "a", 403}, {"stranger", "a", 403}, {"stranger", "a", 403}, {"stranger", "a", 403}, // take no slot
		{"jane", "a", 200}, {"jane", "a", 200}, {"jane", "a", 429}, {"jane", "b", 200},
		{"joe", "a", 200}, {"root", "a", 429}, {"root", "b", 200},
		{"the machine identity", "a", 200}, {"the machine identity", "a", 200}, {"the machine identity", "a", 200},
	} {
		if code := watch(ctx, t, server, step.cluster, tokens[step.who]); code != step.code {
			t.Errorf("%s in %s is answered with %d, want %d", step.who, step.cluster, code, step.code)
		}
	}
	answer, body := ask(t, server, http.MethodGet, "/k8s/clusters/c-m-a/api/v1/pods?watch=1", tokens["root"])
	if status := statusOf(t, answer, body); answer.StatusCode != 429 || answer.Header.Get("Retry-After") != "1" ||
		status.Reason != metav1.StatusReasonTooManyRequests {
		t.Errorf("got %d %+v", answer.StatusCode, status)
	}
	cancel()
	for ended := time.Now().Add(soon); ; <-time.After(time.Millisecond) {
		if code := watch(t.Context(), t, server, "a", tokens["jane"]); code == 200 {
			return
		} else if time.Now().After(ended) {
			t.Fatalf("afterwards: %d", code)
		}
	}
}

// watch starts a watch that lasts until ctx ends, and returns the status code.
func watch(ctx context.Context, t *testing.T, server *httptest.Server, cluster, token string) int {
	t.Helper()
	answer, err := get(ctx, server, "/k8s/clusters/c-m-"+cluster+"/api/v1/pods?watch=1", token)
	check(t, err)
	t.Cleanup(func() { answer.Body.Close() })
	return answer.StatusCode
}

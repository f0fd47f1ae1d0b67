package endpointauth

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/drover-io/drover/pkg/reach/endpointtoken"
)

var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// world is a cluster's endpoint with a clock that the test controls.
type world struct {
	testing.TB
	*handler
	keys endpointtoken.Keys
	file string
	log  *bytes.Buffer
	time time.Time
}

const audience = "drover.io/cluster/c-m-1/uid-1"

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{TB: t, file: filepath.Join(t.TempDir(), "trust.json"), log: &bytes.Buffer{}, time: noon}
	log := logrus.New()
	log.SetOutput(w.log)
	w.handler, _ = NewHandler(w.file, log).(*handler)
	w.now = func() time.Time { return w.time }
	w.keys = w.draw()
	w.trusts(w.keys)
	return w
}

// of returns the world for a subtest.
func (w *world) of(t testing.TB) *world {
	within := *w
	within.TB = t
	return &within
}

func (w *world) draw() endpointtoken.Keys {
	w.Helper()
	keys, err := endpointtoken.NewKeys(rand.Reader, noon)
	w.must(err)
	return keys
}

// trusts replaces the file, as the kubelet does, and moves the clock to the next check.
func (w *world) trusts(keys endpointtoken.Keys) {
	w.Helper()
	content, err := keys.Trust(audience)
	w.must(err)
	w.writes(string(content))
}

func (w *world) writes(content string) {
	w.Helper()
	w.must(os.WriteFile(w.file+"~", []byte(content), 0o600))
	w.must(os.Rename(w.file+"~", w.file))
	w.time = w.time.Add(lookAgain)
}

func (w *world) token(keys endpointtoken.Keys) string {
	w.Helper()
	token, err := keys.Sign(endpointtoken.Claims{
		ID: "id-1", Audience: audience, Issued: noon, Expires: noon.Add(time.Hour),
		User: authenticationv1.UserInfo{Username: "jane", UID: "u-7",
			Groups: []string{"developers", "system:authenticated"}},
	})
	w.must(err)
	return token
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// asks posts a body and returns the answer.
func (w *world) asks(body string) (int, string) {
	w.Helper()
	answer := httptest.NewRecorder()
	w.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, Path+"?timeout=30s", strings.NewReader(body)))
	return answer.Code, strings.TrimSpace(answer.Body.String())
}

// review is the request of an API server.
func review(version, token string) string {
	return fmt.Sprintf(
		`{"kind":"TokenReview","apiVersion":"authentication.k8s.io/%s","metadata":{"creationTimestamp":null},"spec":{"token":%q,"audiences":["https://kubernetes.default.svc"]},"status":{"user":{}}}`, version, token)
}

const (
	jane = `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/VERSION","metadata":{},"spec":{},"status":{"authenticated":true,` +
		`"user":{"username":"jane","uid":"u-7","groups":["developers","system:authenticated"],"extra":{"authentication.kubernetes.io/credential-id":["JTI=id-1"]}}}}`
	nobody = `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/VERSION","metadata":{},"spec":{},"status":{"user":{}}}`
	no     = `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/VERSION","metadata":{},"spec":{},"status":{"user":{},"error":"ERROR"}}`
)

func TestHandler_AnswersReviews(t *testing.T) {
	w := newWorld(t)
	good := w.token(w.keys)
	for name, c := range map[string]struct {
		body string
		code int
		want string
	}{
		"v1":      {review("v1", good), 200, strings.ReplaceAll(jane, "VERSION", "v1")},
		"v1beta1": {review("v1beta1", good), 200, strings.ReplaceAll(jane, "VERSION", "v1beta1")},
		"a token with another key": {review("v1", w.token(w.draw())), 200,
			strings.ReplaceAll(strings.ReplaceAll(no, "VERSION", "v1"), "ERROR", endpointtoken.ErrUnknown.Error())},
		"a token of another kind": {review("v1", "hunter2"), 200, strings.ReplaceAll(nobody, "VERSION", "v1")},
		"no token":                {review("v1", ""), 200, strings.ReplaceAll(nobody, "VERSION", "v1")},
		"an unknown version": {review("v2", good), 400,
			"the body must be a TokenReview of authentication.k8s.io/v1 or authentication.k8s.io/v1beta1"},
		"another kind": {strings.Replace(review("v1", good), "TokenReview", "TokenRequest", 1), 400,
			"the body must be a TokenReview of authentication.k8s.io/v1 or authentication.k8s.io/v1beta1"},
		"not JSON": {"hello", 400,
			"the body must be a TokenReview of authentication.k8s.io/v1 or authentication.k8s.io/v1beta1"},
		"a body that is too large": {review("v1", strings.Repeat("a", largestReview)), 413,
			"the body is unreadable or too large for a TokenReview"},
	} {
		t.Run(name, func(t *testing.T) {
			code, body := w.of(t).asks(c.body)
			if diff := cmp.Diff(c.want, body); diff != "" || code != c.code {
				t.Errorf("answered with %d (-want +got):\n%s", code, diff)
			}
		})
	}
	if strings.Contains(w.log.String(), good) || strings.Contains(w.log.String(), "hunter2") ||
		strings.Contains(w.log.String(), "jane") {
		t.Errorf("the log contains tokens: %s", w.log)
	}
}

func TestHandler_OtherRequests(t *testing.T) {
	w := newWorld(t)
	for request, want := range map[string]int{
		"GET " + Path: 405, "PUT " + Path: 405, "POST /": 404, "POST " + Path + "/": 404, "GET /healthz": 200,
		"GET /readyz": 200,
	} {
		method, path, _ := strings.Cut(request, " ")
		answer := httptest.NewRecorder()
		w.ServeHTTP(answer, httptest.NewRequest(method, path, http.NoBody))
		if answer.Code != want {
			t.Errorf("%s is answered with %d, want %d", request, answer.Code, want)
		}
	}
}

// status returns the review of a token.
func (w *world) status(token string) authenticationv1.TokenReviewStatus {
	w.Helper()
	_, body := w.asks(review("v1", token))
	var answer authenticationv1.TokenReview
	w.must(json.Unmarshal([]byte(body), &answer))
	return answer.Status
}

// A changed file is reread, and its previous keys are forgotten.
func TestHandler_FollowsTheFile(t *testing.T) {
	w := newWorld(t)
	before := w.token(w.keys)
	if !w.status(before).Authenticated {
		t.Fatalf("not authenticated: %s", w.log)
	}
	turned, _, err := w.keys.Turn(rand.Reader, noon.Add(endpointtoken.KeyLife))
	w.must(err)
	w.trusts(turned)
	if !w.status(before).Authenticated || !w.status(w.token(turned)).Authenticated {
		t.Error("during a rotation, tokens of the old and the new key must be valid")
	}
	w.trusts(w.draw())
	if w.status(before).Authenticated || w.status(w.token(turned)).Authenticated {
		t.Error("tokens of removed keys are valid")
	}
	w.trusts(w.keys)
	for name, spoil := range map[string]func(){
		"spoiled": func() { w.writes("{") }, "gone": func() {
			w.must(os.Remove(w.file))
			w.time = w.time.Add(lookAgain)
		},
	} {
		spoil()
		status := w.status(before)
		answer := httptest.NewRecorder()
		w.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/readyz", http.NoBody))
		if status.Authenticated || status.Error == "" || answer.Code != http.StatusServiceUnavailable {
			t.Errorf("with a file that is %s: %+v, ready %d", name, status, answer.Code)
		}
		w.trusts(w.keys)
		if !w.status(before).Authenticated {
			t.Errorf("after a file that was %s: %s", name, w.log)
		}
	}
	w.time = noon.Add(2 * time.Hour)
	if status := w.status(before); status.Authenticated || status.Error != endpointtoken.ErrExpired.Error() {
		t.Errorf("an hour after its end: %+v", status)
	}
}

func TestRun(t *testing.T) {
	w := newWorld(t)
	log := logrus.New()
	log.SetOutput(io.Discard)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	w.must(err)
	defer taken.Close()
	for address, want := range map[string]string{
		"0.0.0.0:6440": "must be a loopback address", "example.com:6440": "must be a loopback address",
		"6440":                "must be HOST:PORT",
		taken.Addr().String(): "address already in use", strings.Replace(taken.Addr().String(), "127.0.0.1",
			"localhost", 1): "address already in use",
	} {
		if err := Run(t.Context(), Options{Address: address, TrustFile: w.file, Log: log}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", address, err, want)
		}
	}
	free := taken.Addr().String()
	w.must(taken.Close())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, Options{Address: free, TrustFile: w.file, Log: log}) }()
	for deadline := time.Now().Add(5 * time.Second); ; <-time.After(time.Millisecond) {
		answer, err := http.Post("http://"+free+Path, "application/json", strings.NewReader(review("v1", "hunter2")))
		if err == nil {
			_ = answer.Body.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	cancel()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

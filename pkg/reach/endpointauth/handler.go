package endpointauth

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/sirupsen/logrus"
	authenticationv1 "k8s.io/api/authentication/v1"
	authenticationv1beta1 "k8s.io/api/authentication/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/pkg/reach/endpointtoken"
)

// Path is where API servers ask. The plans of servers name it.
const Path = "/v1/authenticate"

// largestReview is more than any TokenReview has, in bytes. API servers take a megabyte of headers.
const largestReview = 1 << 20

// handler answers TokenReviews.
type handler struct {
	keys *trusted
	now  func() time.Time
}

// NewHandler answers TokenReviews at Path from the keys in a file, and at /healthz and /readyz whether it has any. Nothing of a token is ever logged.
func NewHandler(trustFile string, log logrus.FieldLogger) http.Handler {
	return &handler{keys: &trusted{path: trustFile, log: log}, now: time.Now}
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case Path:
		h.authenticate(w, r)
	case "/healthz":
		_, _ = io.WriteString(w, "ok") // the client is gone if this fails
	case "/readyz":
		if h.keys.current(h.now()) == nil {
			http.Error(w, "there are no keys", http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok") // as above
	default:
		http.NotFound(w, r)
	}
}

// authenticate answers one review in the version in which it was asked. Who it is not about a token of this kind gets a no without a word: it may be for
// another authenticator.
func (h *handler) authenticate(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "TokenReviews are posted", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, largestReview))
	if err != nil {
		code := http.StatusBadRequest
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			code = http.StatusRequestEntityTooLarge
		}
		http.Error(w, "the body cannot be read, or is larger than that of any TokenReview", code)
		return
	}
	// What is read of both versions is the same.
	var review authenticationv1.TokenReview
	if json.Unmarshal(body, &review) != nil || review.Kind != "TokenReview" || !known(review.APIVersion) {
		http.Error(w, "the body must be a TokenReview of "+authenticationv1.SchemeGroupVersion.String()+" or "+authenticationv1beta1.SchemeGroupVersion.String(),
			http.StatusBadRequest)
		return
	}
	answer := authenticationv1.TokenReview{
		TypeMeta: metav1.TypeMeta{APIVersion: review.APIVersion, Kind: "TokenReview"}, Status: h.review(review.Spec.Token),
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // the client is gone if this fails
}

func known(version string) bool {
	return version == authenticationv1.SchemeGroupVersion.String() || version == authenticationv1beta1.SchemeGroupVersion.String()
}

// review says whose a token is. It tells no audiences: a token is good for the API server that asks here, which knows its own.
func (h *handler) review(token string) authenticationv1.TokenReviewStatus {
	if !endpointtoken.IsOne(token) {
		return authenticationv1.TokenReviewStatus{}
	}
	now := h.now()
	trust := h.keys.current(now)
	if trust == nil {
		return authenticationv1.TokenReviewStatus{Error: "there are no keys to verify the token with"}
	}
	user, err := trust.Verify(token, now)
	if err != nil {
		return authenticationv1.TokenReviewStatus{Error: err.Error()}
	}
	return authenticationv1.TokenReviewStatus{Authenticated: true, User: user}
}

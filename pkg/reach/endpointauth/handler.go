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

// Path is the path of TokenReviews. The plans of servers contain it.
const Path = "/v1/authenticate"

// largestReview is larger than any TokenReview, in bytes. API servers accept one megabyte of headers.
const largestReview = 1 << 20

// handler answers TokenReviews.
type handler struct {
	keys *trusted
	now  func() time.Time
}

// NewHandler answers TokenReviews at Path with the keys in a file. At /healthz and /readyz it reports whether it runs
// and whether it has keys. It never logs any part of a token.
func NewHandler(trustFile string, log logrus.FieldLogger) http.Handler {
	return &handler{keys: &trusted{path: trustFile, log: log}, now: time.Now}
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case Path:
		h.authenticate(w, r)
	case "/healthz":
		_, _ = io.WriteString(w, "ok") // fails only when the client has disconnected
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

// authenticate answers one review in its own API version. A token of another kind is refused without an error, because
// another authenticator may accept it.
func (h *handler) authenticate(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "use POST to send a TokenReview", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, largestReview))
	if err != nil {
		code := http.StatusBadRequest
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			code = http.StatusRequestEntityTooLarge
		}
		http.Error(w, "the body is unreadable or too large for a TokenReview", code)
		return
	}
	// Both versions have the same fields here.
	var review authenticationv1.TokenReview
	if json.Unmarshal(body, &review) != nil || review.Kind != "TokenReview" || !known(review.APIVersion) {
		http.Error(w, "the body must be a TokenReview of "+authenticationv1.SchemeGroupVersion.String()+" or "+
			authenticationv1beta1.SchemeGroupVersion.String(),
			http.StatusBadRequest)
		return
	}
	answer := authenticationv1.TokenReview{
		TypeMeta: metav1.TypeMeta{APIVersion: review.APIVersion, Kind: "TokenReview"},
		Status:   h.review(review.Spec.Token),
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // fails only when the client has disconnected
}

func known(version string) bool {
	return version == authenticationv1.SchemeGroupVersion.String() ||
		version == authenticationv1beta1.SchemeGroupVersion.String()
}

// review returns the user of a token. It returns no audiences: a token is valid for the API server that asks, which
// knows its own.
func (h *handler) review(token string) authenticationv1.TokenReviewStatus {
	if !endpointtoken.IsOne(token) {
		return authenticationv1.TokenReviewStatus{}
	}
	now := h.now()
	trust := h.keys.current(now)
	if trust == nil {
		return authenticationv1.TokenReviewStatus{Error: "there are no keys to verify the token"}
	}
	user, err := trust.Verify(token, now)
	if err != nil {
		return authenticationv1.TokenReviewStatus{Error: err.Error()}
	}
	return authenticationv1.TokenReviewStatus{Authenticated: true, User: user}
}

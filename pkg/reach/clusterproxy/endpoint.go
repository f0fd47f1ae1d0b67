package clusterproxy

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/pkg/reach/endpointtoken"
)

// longestAsking is the longest accepted body of a token request, in bytes.
const longestAsking = 64 << 10

// issue answers a request for a token for the authorized endpoint of a cluster, in the form of Kubernetes'
// TokenRequest. Callers with access to the cluster here get one.
func (p *Proxy) issue(e *exchange) error {
	e.verb = "create"
	return p.atEndpoint(e, EndpointTokensPrefix, http.MethodPost, func(ctx context.Context) error {
		life, no := p.lifeAsked(e.w, e.r)
		if no != nil {
			return no
		}
		endpoint, err := p.options.Endpoint(e.at.Cluster)
		if err != nil {
			return noEndpoint(err)
		}
		return e.sign(endpoint, life)
	})
}

// atEndpoint answers a request about the authorized endpoint of a cluster. The caller must have access to the cluster,
// without impersonation.
func (p *Proxy) atEndpoint(e *exchange, prefix, method string, answer func(context.Context) error) error {
	path := escapedPath(e.r.URL)
	id := strings.TrimPrefix(path, prefix)
	switch {
	case !isID(id) || p.options.Endpoint == nil:
		return &refusal{code: http.StatusNotFound, reason: metav1.StatusReasonNotFound,
			message: "the path contains no cluster"}
	case e.r.Method != method:
		return &refusal{code: http.StatusMethodNotAllowed, reason: metav1.StatusReasonMethodNotAllowed,
			message: "the method of this path must be " + method}
	}
	e.at = target{Cluster: id, Rest: path}
	defer p.metrics.Begin(false)()
	err := p.checked(e, func() error {
		if no := e.named(); no != nil {
			return no
		}
		ctx, cancel := context.WithTimeout(e.r.Context(), p.options.RequestTimeout)
		defer cancel()
		return p.authorizer.access(ctx, e.caller, id)
	})
	if err != nil {
		return err
	}
	leave, err := e.enter()
	if err != nil {
		return err
	}
	defer leave()
	e.setDeadlines()
	ctx, cancel := context.WithTimeout(e.r.Context(), p.options.RequestTimeout)
	defer cancel()
	return answer(ctx)
}

// named sets the identity of the token: the caller's downstream identity.
func (e *exchange) named() *refusal {
	if e.caller.Machine || e.caller.Cluster != "" {
		return forbidden("tokens of Drover are valid for Drover's endpoints only: log in to the management cluster " +
			"to get a token for the cluster")
	}
	if no := e.caller.unfit(); no != nil {
		return no
	}
	asked, no := askedIdentity(e.r.Header)
	if no == nil && asked != nil {
		no = badRequest("a token is for the user who requests it: remove the headers Impersonate-…, and impersonate " +
			"in the cluster")
	}
	if no != nil {
		return no
	}
	e.what.As, no = names{}.identity(e.caller.authenticated())
	return no
}

// lifeAsked is the lifetime of the token: the requested one, up to the allowed maximum.
func (p *Proxy) lifeAsked(w http.ResponseWriter, r *http.Request) (time.Duration, *refusal) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, longestAsking))
	if err != nil {
		return 0, badRequest("the body is unreadable or too large for a TokenRequest")
	}
	var asked authenticationv1.TokenRequest
	if len(body) > 0 && json.Unmarshal(body, &asked) != nil {
		return 0, badRequest("the body must be empty or a TokenRequest of authentication.k8s.io/v1")
	}
	seconds := asked.Spec.ExpirationSeconds
	switch {
	case len(asked.Spec.Audiences) > 0 || asked.Spec.BoundObjectRef != nil:
		return 0, badRequest(
			"spec.audiences and spec.boundObjectRef must not be set: the token is for the cluster in the path")
	case seconds == nil || *seconds > int64(p.options.EndpointTokenLife/time.Second):
		return p.options.EndpointTokenLife, nil
	case *seconds < int64(endpointtoken.LeastLife/time.Second):
		return 0, badRequest(fmt.Sprintf("spec.expirationSeconds must be at least %d",
			int64(endpointtoken.LeastLife/time.Second)))
	}
	return time.Duration(*seconds) * time.Second, nil
}

// noEndpoint converts the reason why there is no token to an answer. The caller may reach the cluster.
func noEndpoint(err error) error {
	switch {
	case errors.Is(err, endpointtoken.ErrOff):
		return &refusal{code: http.StatusConflict, reason: metav1.StatusReasonConflict, message: err.Error()}
	case errors.Is(err, endpointtoken.ErrNotYet):
		return unavailable(err.Error(), 5)
	// tokens issued before remain valid, so this is no refusal of them
	case errors.Is(err, endpointtoken.ErrInvalidKeys):
		return unavailable(err.Error(), 0)
	}
	return fmt.Errorf("find the keys of a cluster's endpoint: %w", err)
}

// sign creates the token and sends it.
func (e *exchange) sign(endpoint endpointtoken.Endpoint, life time.Duration) error {
	drawn := make([]byte, 16)
	if _, err := io.ReadFull(rand.Reader, drawn); err != nil {
		return fmt.Errorf("make the identifier of a token: %w", err)
	}
	as, now := e.what.As, time.Now().UTC().Truncate(time.Second)
	claims := endpointtoken.Claims{
		ID: hex.EncodeToString(drawn), Audience: endpoint.Audience, Issued: now, Expires: now.Add(life),
		User: authenticationv1.UserInfo{Username: as.Name, UID: as.UID, Groups: as.Groups},
	}
	for key, values := range as.Extra {
		if claims.User.Extra == nil {
			claims.User.Extra = map[string]authenticationv1.ExtraValue{}
		}
		claims.User.Extra[key] = values
	}
	token, err := endpoint.Keys.Sign(claims)
	if errors.Is(err, endpointtoken.ErrTooLong) {
		return forbidden(err.Error())
	}
	if err != nil {
		return err
	}
	e.tokenID = claims.ID
	e.tell(http.StatusCreated, authenticationv1.TokenRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: authenticationv1.SchemeGroupVersion.String(), Kind: "TokenRequest"},
		Spec:     authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(life / time.Second))},
		Status: authenticationv1.TokenRequestStatus{Token: token,
			ExpirationTimestamp: metav1.NewTime(claims.Expires)},
	})
	return nil
}

// tell answers with an object that must not be cached.
func (e *exchange) tell(code int, object any) {
	header := e.w.Header()
	header.Set(auditIDHeader, e.id)
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	e.w.WriteHeader(code)
	_ = json.NewEncoder(e.w).Encode(object) // fails only when the client has disconnected
}

package clusterproxy

import (
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/reach/endpointtoken"
)

// errUnauthenticated means that a request has no valid credential.
var errUnauthenticated = errors.New("the caller has no valid credential")

// authenticator identifies the caller of a request. The first kind of credential in the request decides: with an
// invalid bearer token, a certificate does not help. Anonymous callers are refused.
type authenticator struct {
	tokens         TokenStore
	tokenNamespace string
	lookup         func(id string) (namespace, name string, ok bool)
	reviews        *tokenReviews
	clientCA       func() *x509.CertPool
	host           RequestAuthenticator
	// prefixes are the path prefixes of clusters. Pages below them are foreign.
	prefixes []string
}

// authenticate returns the caller. The error is errUnauthenticated, or why the caller could not be determined.
func (a *authenticator) authenticate(r *http.Request) (Caller, error) {
	if a.host != nil {
		return a.ofHost(r)
	}
	token, presented, err := bearerToken(r.Header)
	switch {
	case err != nil:
		return Caller{}, err
	case presented && strings.HasPrefix(token, BearerPrefix):
		return a.ofToken(token)
	case presented && endpointtoken.IsOne(token):
		return Caller{}, fmt.Errorf("the token is for the endpoint of a cluster, and not for Drover: %w",
			errUnauthenticated)
	case presented && a.reviews == nil:
		return Caller{}, fmt.Errorf("this server does not accept tokens of the management cluster: %w",
			errUnauthenticated)
	case presented:
		return a.reviews.caller(r.Context(), token)
	}
	return a.ofCertificate(r)
}

// ofHost asks the program that embeds Drover.
func (a *authenticator) ofHost(r *http.Request) (Caller, error) {
	found, ok, err := a.host.Authenticate(r)
	if err != nil {
		return Caller{}, fmt.Errorf("ask the embedding program who the caller is: %w", err)
	}
	if !ok || found == nil {
		return Caller{}, errUnauthenticated
	}
	return known(Caller{Identity: identityOf(found)})
}

// ofToken looks up a token of Drover's own.
func (a *authenticator) ofToken(token string) (Caller, error) {
	if a.tokens == nil {
		return Caller{}, errUnauthenticated
	}
	found, err := a.tokens.GetByIndex(TokenIndex, naming.SHA256(naming.SHA256(token)))
	if err != nil {
		return Caller{}, fmt.Errorf("look up a token: %w", err)
	}
	caller, ok := tokenRules{own: a.tokenNamespace, lookup: a.lookup, now: time.Now()}.verify(token, found)
	if !ok {
		return Caller{}, errUnauthenticated
	}
	return known(caller)
}

// ofCertificate reads the user from a client certificate. As in Kubernetes, the common name is the user name and the
// organizations are the groups.
func (a *authenticator) ofCertificate(r *http.Request) (Caller, error) {
	if a.clientCA == nil || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 || foreign(r, a.prefixes) {
		return Caller{}, errUnauthenticated
	}
	roots := a.clientCA()
	if roots == nil { // nil would mean the system's authorities
		return Caller{}, errUnauthenticated
	}
	own, others := r.TLS.PeerCertificates[0], x509.NewCertPool()
	for _, certificate := range r.TLS.PeerCertificates[1:] {
		others.AddCert(certificate)
	}
	options := x509.VerifyOptions{Roots: roots, Intermediates: others,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if _, err := own.Verify(options); err != nil {
		return Caller{}, fmt.Errorf("client certificate: %w", errUnauthenticated)
	}
	return known(Caller{Identity: Identity{Name: own.Subject.CommonName, Groups: own.Subject.Organization}})
}

// known refuses anonymous callers, whatever their source.
func known(caller Caller) (Caller, error) {
	if caller.isNobody() {
		return Caller{}, errUnauthenticated
	}
	caller.Identity = caller.authenticated()
	return caller, nil
}

// longestToken is longer than any real token, in bytes. Longer tokens are not reviewed.
const longestToken = 16 << 10

// bearerToken finds the token of a request: in Authorization, or, as browsers send it, among the WebSocket
// subprotocols. In the latter case the request needs another subprotocol that the server can select. presented is false
// without a token. The error is errUnauthenticated.
func bearerToken(in http.Header) (token string, presented bool, err error) {
	if values := in["Authorization"]; len(values) > 0 {
		token, err := oneBearer(values)
		return token, true, err
	}
	if !strings.EqualFold(upgradeOf(in), "websocket") {
		return "", false, nil
	}
	tokens, others := splitProtocols(in[protocolHeader])
	if len(tokens) == 0 {
		return "", false, nil
	}
	decoded, err := base64.RawURLEncoding.DecodeString(tokens[0])
	if err != nil || len(tokens) != 1 || len(others) == 0 || len(decoded) == 0 || !utf8.Valid(decoded) {
		return "", true, fmt.Errorf("the WebSocket subprotocols must contain one valid bearer token: %w",
			errUnauthenticated)
	}
	return string(decoded), true, nil
}

// oneBearer reads the Authorization header.
func oneBearer(values []string) (string, error) {
	fields := strings.Fields(values[0])
	if len(values) != 1 || len(fields) != 2 || !strings.EqualFold(fields[0], "Bearer") {
		return "", fmt.Errorf("header Authorization must be one bearer token: %w", errUnauthenticated)
	}
	if len(fields[1]) > longestToken {
		return "", fmt.Errorf("the bearer token is too long: %w", errUnauthenticated)
	}
	return fields[1], nil
}

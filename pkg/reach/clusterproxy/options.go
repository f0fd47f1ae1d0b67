package clusterproxy

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	"k8s.io/apiserver/pkg/authentication/user"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"

	"github.com/drover-io/drover/pkg/reach/endpointtoken"
)

// Defaults of Options. The timeout and the number of requests are those of kube-apiserver.
const (
	DefaultVerb           = "get"
	DefaultRequestTimeout = time.Minute
	DefaultMaxInFlight    = 400
	// A tunnel has 4000 streams (wire.MaxRequests); what users cannot take is for Drover, Cluster API and requests that end soon.
	DefaultMaxLongRunning          = 3000
	DefaultMaxLongRunningPerCaller = 500
)

// EndpointTokensPrefix is the path below which tokens for the authorized endpoint of a cluster are asked for; its identifier follows.
const EndpointTokensPrefix = "/k8s/endpoint-tokens/" //nolint:gosec // a path

// DefaultPrefixes are the paths below which clusters are. The second is an alias. (docs/wire/endpoints.md#proxy.)
func DefaultPrefixes() []string { return []string{"/k8s/clusters/", "/k8s/proxy/"} }

// RequestAuthenticator finds out who sent a request.
type RequestAuthenticator interface {
	// Authenticate returns the user; ok is false for a request that shows nobody, or nobody who is known. An error says that it cannot be found out.
	Authenticate(r *http.Request) (found user.Info, ok bool, err error)
}

// Authorizer tells what users may do.
type Authorizer interface {
	// CanAccessCluster tells whether a user may reach the cluster with an identifier. It is asked about clusters that do not exist, too, and has to
	// answer no but for users who may know that.
	CanAccessCluster(ctx context.Context, who user.Info, id, verb string) (bool, error)
	// CanImpersonate tells whether a user may act as another one, with all its groups and extras.
	CanImpersonate(ctx context.Context, who, target user.Info) (bool, error)
}

// Options is what the proxy needs. Functions are called by many requests at once.
type Options struct {
	// Transport returns what reaches the API server of a cluster. It sets scheme, host and credential of a request itself, answers one that has a header
	// Upgrade with 101 and a body that can be written, and ends a request when its context ends. Its error is NotConnected while there is no connection; it waits for none.
	Transport func(cluster string) (http.RoundTripper, error)
	// NotConnected is the error, for errors.Is, with which Transport and the RoundTripper say that there is no connection.
	NotConnected error
	// Lookup finds the Cluster of an identifier (c-m-…) in a cache.
	Lookup func(id string) (namespace, name string, ok bool)

	// Tokens finds Secrets of our own tokens; nil if there are none.
	Tokens TokenStore
	// TokenNamespace is Drover's own namespace. Secrets of tokens count there and nowhere else.
	TokenNamespace string
	// TokenReviews asks the management cluster whose a token is; nil to accept none.
	TokenReviews authenticationclient.TokenReviewInterface
	// Audiences are those of tokens for this proxy, besides the API server's own; DefaultAudience when there are none.
	Audiences []string
	// ClientCA returns the authorities of client certificates. nil, or an answer of nil: certificates count for nothing.
	ClientCA func() *x509.CertPool
	// Authenticator replaces all of these.
	Authenticator RequestAuthenticator

	// AccessReviews asks the management cluster who may do what. It may be nil if Authorizer is not.
	AccessReviews authorizationclient.SubjectAccessReviewInterface
	// Verb is what a user has to be allowed on the Cluster; DefaultVerb when empty.
	Verb string
	// Authorizer replaces AccessReviews.
	Authorizer Authorizer

	// PassSystemGroups passes groups, users and extras with a meaning to Kubernetes on as they are (system:masters!), but for service accounts and names
	// that Drover gives. For management and downstream clusters that are one domain of trust.
	PassSystemGroups bool
	// RequestTimeout ends requests that are not long-running; DefaultRequestTimeout when zero.
	RequestTimeout time.Duration
	// MaxInFlight limits how many requests go on at once, those not counted that are long-running; DefaultMaxInFlight when zero, no limit when negative.
	MaxInFlight int
	// MaxInFlightPerCaller is the same for one user; half of MaxInFlight when zero, no limit when negative.
	MaxInFlightPerCaller int
	// MaxLongRunning limits how many long-running requests (watches, exec, logs) of users go on at once to one cluster; DefaultMaxLongRunning when zero, no
	// limit when negative. Machine identities have none.
	MaxLongRunning int
	// MaxLongRunningPerCaller is the same for one user; DefaultMaxLongRunningPerCaller when zero, no limit when negative.
	MaxLongRunningPerCaller int
	// Prefixes are the paths below which clusters are, with a slash at both ends; DefaultPrefixes when there are none.
	Prefixes []string

	// Endpoint returns what tokens for the authorized endpoint of a cluster are made with, for callers that may reach it. Errors that wrap endpointtoken.ErrOff are
	// told to the caller. nil makes none.
	Endpoint func(cluster string) (endpointtoken.Endpoint, error)
	// EndpointServers returns from a cache where the servers of that endpoint are, for callers that may reach the cluster and for which Endpoint has no error: URLs by names
	// of nodes. EndpointAuthority asks the cluster by whom their certificates are, as PEM; what it returns is remembered for a while, and its error is NotConnected while
	// the cluster cannot be asked. Without both nobody is told.
	EndpointServers   func(cluster string) (map[string]string, error)
	EndpointAuthority func(ctx context.Context, cluster string) ([]byte, error)
	// EndpointTokenLife is the longest that such a token is good for; endpointtoken.DefaultLife when zero.
	EndpointTokenLife time.Duration

	// Audit gets one Record at the end of each request, and one more at the start of those that are long-running; nil writes them to Log.
	Audit func(Record)
	// Log gets what operators should know. It must not be nil.
	Log logrus.FieldLogger
	// Registerer gets the metrics; the process-wide one when it is nil.
	Registerer prometheus.Registerer
}

// complete fills in defaults. The error says which field is wrong.
func (o Options) complete() (Options, error) {
	o.Verb = cmp.Or(o.Verb, DefaultVerb)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, DefaultRequestTimeout)
	o.MaxInFlight = cmp.Or(o.MaxInFlight, DefaultMaxInFlight)
	o.MaxLongRunning = cmp.Or(o.MaxLongRunning, DefaultMaxLongRunning)
	o.MaxLongRunningPerCaller = cmp.Or(o.MaxLongRunningPerCaller, DefaultMaxLongRunningPerCaller)
	o.EndpointTokenLife = cmp.Or(o.EndpointTokenLife, endpointtoken.DefaultLife)
	if o.MaxInFlightPerCaller == 0 {
		o.MaxInFlightPerCaller = min(o.MaxInFlight, max(o.MaxInFlight/2, 1)) // without a limit for all there is none for one
	}
	if len(o.Audiences) == 0 {
		o.Audiences = []string{DefaultAudience}
	}
	if len(o.Prefixes) == 0 {
		o.Prefixes = DefaultPrefixes()
	}
	for _, prefix := range o.Prefixes {
		if !strings.HasPrefix(prefix, "/") || !strings.HasSuffix(prefix, "/") || strings.ContainsAny(prefix, "%?#") {
			return o, errors.New("clusterproxy: Prefixes must begin and end with a slash and have no escapes: " + prefix)
		}
	}
	return o, o.validate()
}

func (o Options) validate() error {
	nobody := o.Authenticator == nil && o.Tokens == nil && o.TokenReviews == nil && o.ClientCA == nil
	for _, rule := range []struct {
		broken bool
		text   string
	}{
		{o.Transport == nil, "Transport must be set"},
		{o.NotConnected == nil, "NotConnected must be set"},
		{o.Lookup == nil, "Lookup must be set"},
		{o.Log == nil, "Log must be set"},
		{o.Authorizer == nil && o.AccessReviews == nil, "AccessReviews or Authorizer must be set"},
		{nobody, "nobody could call: set Authenticator, TokenReviews, Tokens or ClientCA"},
		{o.Tokens != nil && o.TokenNamespace == "", "TokenNamespace must be set together with Tokens"},
		{o.RequestTimeout < 0, "RequestTimeout must not be negative"},
		{
			o.EndpointTokenLife < endpointtoken.LeastLife || o.EndpointTokenLife > endpointtoken.MaxLife,
			"EndpointTokenLife must be from " + endpointtoken.LeastLife.String() + " to " + endpointtoken.MaxLife.String(),
		},
	} {
		if rule.broken {
			return errors.New("clusterproxy: " + rule.text)
		}
	}
	return nil
}

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
	"github.com/drover-io/drover/pkg/reach/unread"
)

// Defaults of Options. The timeout and the number of requests equal those of kube-apiserver.
const (
	DefaultVerb           = "get"
	DefaultRequestTimeout = time.Minute
	DefaultRecheck        = time.Minute
	DefaultUploadStall    = time.Minute
	DefaultMaxInFlight    = 400
	// One namespace, and one cluster in it, get these slots from the fair queue while no other needs slots.
	DefaultMaxInFlightPerNamespace = 200
	DefaultMaxInFlightPerCluster   = 100
	DefaultMaxWaitingPerNamespace  = 400
	// A tunnel has 4000 streams (wire.MaxRequests). The rest is for Drover, Cluster API and short requests.
	DefaultMaxLongRunning             = 3000
	DefaultMaxLongRunningPerNamespace = 10000
	DefaultMaxLongRunningPerCaller    = 500
)

// EndpointTokensPrefix is the path prefix for requesting tokens for the authorized endpoint of a cluster. The cluster's
// identifier follows.
const EndpointTokensPrefix = "/k8s/endpoint-tokens/" //nolint:gosec // a path

// DefaultPrefixes are the path prefixes of clusters. The second is an alias. (docs/wire/endpoints.md#proxy.)
func DefaultPrefixes() []string { return []string{"/k8s/clusters/", "/k8s/proxy/"} }

// RequestAuthenticator identifies the caller of a request.
type RequestAuthenticator interface {
	// Authenticate returns the user. ok is false for a request without a valid credential. An error means that the
	// result is unknown. Drover asks again with the same request, without its body, while a long-running request runs.
	Authenticate(r *http.Request) (found user.Info, ok bool, err error)
}

// Authorizer decides what users may do.
type Authorizer interface {
	// CanAccessCluster reports whether a user may reach the cluster with an identifier. It is also called for missing
	// clusters. For these it must return false, except for users that may know that the cluster is missing.
	CanAccessCluster(ctx context.Context, who user.Info, id, verb string) (bool, error)
	// CanImpersonate reports whether a user may act as another one, with all its groups and extras.
	CanImpersonate(ctx context.Context, who, target user.Info) (bool, error)
}

// Options are the proxy's dependencies. Functions are called concurrently.
type Options struct {
	// Transport returns a RoundTripper to the API server of a cluster. It sets scheme, host and credential of a request
	// itself. It answers a request with an Upgrade header with 101 and a writable body. It ends a request with its
	// context. Without a connection it immediately returns NotConnected. The body of an answer may have a method
	// "Holds() int64": how many bytes the transport may hold while nothing reads the body.
	Transport func(cluster string) (http.RoundTripper, error)
	// NotConnected is the error, for errors.Is, by which Transport and the RoundTripper report a missing connection.
	NotConnected error
	// Lookup returns the Cluster of an identifier (c-m-…) from a cache.
	Lookup func(id string) (namespace, name string, ok bool)

	// Tokens finds Secrets of Drover's own tokens. nil means none.
	Tokens TokenStore
	// TokenNamespace is Drover's own namespace. Token Secrets in other namespaces are ignored.
	TokenNamespace string
	// TokenReviews asks the management cluster to identify the bearer of a token. nil means that such tokens are
	// refused.
	TokenReviews authenticationclient.TokenReviewInterface
	// Audiences are the accepted audiences of tokens, in addition to the API server's own. Empty means DefaultAudience.
	Audiences []string
	// ClientCA returns the authorities of client certificates. If it is nil or returns nil, certificates are ignored.
	ClientCA func() *x509.CertPool
	// Authenticator replaces all of the above.
	Authenticator RequestAuthenticator

	// AccessReviews asks the management cluster for permissions. It may be nil if Authorizer is set.
	AccessReviews authorizationclient.SubjectAccessReviewInterface
	// Verb is the permission on the Cluster that a user needs. Empty means DefaultVerb.
	Verb string
	// Authorizer replaces AccessReviews.
	Authorizer Authorizer

	// PassSystemGroups passes users, groups and extras with a built-in Kubernetes meaning unchanged (system:masters!),
	// except service accounts and Drover's own names. Use it only if management and downstream clusters are one trust
	// domain.
	PassSystemGroups bool
	// RequestTimeout limits requests that are not long-running. Zero means DefaultRequestTimeout.
	RequestTimeout time.Duration
	// UploadStall is how long a client may send nothing of the body of a long-running request, while the cluster waits
	// for it. Zero means DefaultUploadStall.
	UploadStall time.Duration
	// Recheck is how long a long-running request may continue after its caller has lost the credential or the
	// permission. Zero means DefaultRecheck. While the management cluster does not answer, the request continues for
	// five times as long.
	Recheck time.Duration
	// MaxInFlight is the number of slots: of concurrent requests that are not long-running. Zero means
	// DefaultMaxInFlight, negative means unlimited. Namespaces, clusters and callers share the slots, so that none
	// takes all of them.
	MaxInFlight int
	// MaxInFlightPerNamespace and MaxInFlightPerCluster limit the slots of the clusters of one namespace, and of one
	// cluster. MaxInFlightPerCaller limits those of one user in one cluster. Zero means the defaults, and no such limit
	// for a user. Negative means unlimited.
	MaxInFlightPerNamespace, MaxInFlightPerCluster, MaxInFlightPerCaller int
	// MaxWaitingPerNamespace limits the requests of one namespace that wait for a slot. Zero means
	// DefaultMaxWaitingPerNamespace, negative means unlimited.
	MaxWaitingPerNamespace int
	// MaxLongRunning limits concurrent long-running requests (watches, exec, logs) of users to one cluster. Zero means
	// DefaultMaxLongRunning, negative means unlimited. Machine identities have no such limit.
	MaxLongRunning int
	// MaxLongRunningPerNamespace is the same limit for all clusters of one namespace. Zero means
	// DefaultMaxLongRunningPerNamespace, negative means unlimited.
	MaxLongRunningPerNamespace int
	// MaxLongRunningPerCaller is the same limit for one user. Zero means DefaultMaxLongRunningPerCaller, negative means
	// unlimited.
	MaxLongRunningPerCaller int
	// Unread ends requests whose client stops reading. A tenant is the namespace of a cluster. nil means one without
	// budgets.
	Unread *unread.Ledger
	// Prefixes are the path prefixes of clusters, with a slash at both ends. Empty means DefaultPrefixes.
	Prefixes []string

	// Endpoint returns the keys and audience for tokens of a cluster's authorized endpoint, for callers with access to
	// the cluster. Callers see errors that wrap endpointtoken.ErrOff. nil issues no tokens.
	Endpoint func(cluster string) (endpointtoken.Endpoint, error)
	// EndpointServers returns the URLs of that endpoint's servers by node name, from a cache, for callers with access
	// to the cluster. EndpointAuthority asks the cluster for the CA certificates of these servers, as PEM. Its result
	// is cached for a while, and its error is NotConnected while the cluster has no connection. Without both functions,
	// callers get no addresses.
	EndpointServers   func(cluster string) (map[string]string, error)
	EndpointAuthority func(ctx context.Context, cluster string) ([]byte, error)
	// EndpointTokenLife is the longest lifetime of such a token. Zero means endpointtoken.DefaultLife.
	EndpointTokenLife time.Duration

	// Audit is called with a Record at the end of each request, and also at the start of long-running ones. nil writes
	// Records to Log.
	Audit func(Record)
	// Log receives messages for operators. It must not be nil.
	Log logrus.FieldLogger
	// Registerer receives the metrics. nil means the process-wide registerer.
	Registerer prometheus.Registerer
}

// complete fills in defaults. The error names the invalid field.
func (o Options) complete() (Options, error) {
	o.Verb = cmp.Or(o.Verb, DefaultVerb)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, DefaultRequestTimeout)
	o.Recheck = cmp.Or(o.Recheck, DefaultRecheck)
	o.UploadStall = cmp.Or(o.UploadStall, DefaultUploadStall)
	o.MaxInFlight = cmp.Or(o.MaxInFlight, DefaultMaxInFlight)
	o.MaxInFlightPerNamespace = cmp.Or(o.MaxInFlightPerNamespace, DefaultMaxInFlightPerNamespace)
	o.MaxInFlightPerCluster = cmp.Or(o.MaxInFlightPerCluster, DefaultMaxInFlightPerCluster)
	o.MaxInFlightPerCaller = cmp.Or(o.MaxInFlightPerCaller, unlimited)
	o.MaxWaitingPerNamespace = cmp.Or(o.MaxWaitingPerNamespace, DefaultMaxWaitingPerNamespace)
	o.MaxLongRunningPerNamespace = cmp.Or(o.MaxLongRunningPerNamespace, DefaultMaxLongRunningPerNamespace)
	o.MaxLongRunning = cmp.Or(o.MaxLongRunning, DefaultMaxLongRunning)
	o.MaxLongRunningPerCaller = cmp.Or(o.MaxLongRunningPerCaller, DefaultMaxLongRunningPerCaller)
	o.EndpointTokenLife = cmp.Or(o.EndpointTokenLife, endpointtoken.DefaultLife)
	if o.Unread == nil {
		o.Unread = unread.New(unread.Options{})
	}
	if len(o.Audiences) == 0 {
		o.Audiences = []string{DefaultAudience}
	}
	if len(o.Prefixes) == 0 {
		o.Prefixes = DefaultPrefixes()
	}
	for _, prefix := range o.Prefixes {
		if !strings.HasPrefix(prefix, "/") || !strings.HasSuffix(prefix, "/") || strings.ContainsAny(prefix, "%?#") {
			return o, errors.New("clusterproxy: Prefixes must begin and end with a slash and have no escapes: " +
				prefix)
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
		{nobody, "no caller can be authenticated: set Authenticator, TokenReviews, Tokens or ClientCA"},
		{o.Tokens != nil && o.TokenNamespace == "", "TokenNamespace must be set together with Tokens"},
		{o.RequestTimeout < 0, "RequestTimeout must not be negative"},
		{o.Recheck < time.Second, "Recheck must be at least a second"},
		{
			o.EndpointTokenLife < endpointtoken.LeastLife || o.EndpointTokenLife > endpointtoken.MaxLife,
			"EndpointTokenLife must be from " + endpointtoken.LeastLife.String() + " to " +
				endpointtoken.MaxLife.String(),
		},
	} {
		if rule.broken {
			return errors.New("clusterproxy: " + rule.text)
		}
	}
	return nil
}

package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Servers are the rules for the addresses to which users may send Drover: in kubeconfigs in Secrets, and as
// repositories of charts. Users of a cluster's namespace may write these. Without the rules they could make Drover
// connect to itself, to services of its host, or to the metadata service of a cloud. The zero value permits no
// exception.
type Servers struct {
	// AllowLoopback permits loopback addresses, for clusters on Drover's own host.
	AllowLoopback bool
	// Management are addresses of the management cluster's API server inside that cluster. They are never permitted.
	Management []string
}

// RefusedError means that the kubeconfig in a Secret breaks a rule. Its text names the Secret and the rule, and omits
// the content.
type RefusedError struct {
	// Namespace and Name are those of the Secret.
	Namespace, Name string
	// Rule is the broken rule, and what to change.
	Rule string
}

// Error implements error.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("kubeconfig in Secret %s/%s is refused: %s", e.Namespace, e.Name, e.Rule)
}

// RefusesKubeconfig distinguishes the error in packages that do not import this one.
func (e *RefusedError) RefusesKubeconfig() bool { return true }

// Check returns a *RefusedError if the kubeconfig in a Secret breaks a rule. It looks no name up: the connection checks
// the addresses of a name.
func (s Servers) Check(secret *corev1.Secret) error {
	broken := func(err error) error {
		return &RefusedError{Namespace: secret.Namespace, Name: secret.Name, Rule: err.Error()}
	}
	kubeconfig := secret.Data[KubeconfigKey]
	if err := Harmless(kubeconfig); err != nil {
		return broken(err)
	}
	config, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return broken(errors.New("it is not a kubeconfig"))
	}
	for _, cluster := range config.Clusters {
		server, err := url.Parse(cluster.Server)
		if err != nil {
			return broken(errors.New("its server is not a URL"))
		}
		if what := s.RefusesHost(server.Hostname()); what != "" {
			return broken(errors.New("its server has " + what + remedy))
		}
	}
	return nil
}

// remedy follows the kind of a refused address.
const remedy = ": use an address of the cluster's own API server"

// RefusesHost returns why a host name or an address is refused, such as "a loopback address", or "". It looks no name
// up.
func (s Servers) RefusesHost(host string) string {
	if slices.Contains(s.Management, host) {
		return "the address of the management cluster"
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if !s.AllowLoopback && (name == "localhost" || strings.HasSuffix(name, ".localhost")) {
		return "a loopback address"
	}
	if address, err := netip.ParseAddr(host); err == nil {
		return s.Refuses(address)
	}
	return ""
}

// Refuses returns why an address is refused, or "".
func (s Servers) Refuses(address netip.Addr) string {
	address = address.Unmap()
	isManagement := func(host string) bool {
		own, err := netip.ParseAddr(host)
		return err == nil && own.Unmap() == address.WithZone("")
	}
	switch {
	case slices.ContainsFunc(s.Management, isManagement):
		return "the address of the management cluster"
	case address.IsLoopback() && s.AllowLoopback:
		return ""
	case address.IsLoopback():
		return "a loopback address"
	case address.IsUnspecified():
		return "an unspecified address"
	case address.IsMulticast(), address == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "a multicast or broadcast address"
	case address.IsLinkLocalUnicast():
		return "a link-local address"
	}
	return ""
}

// configFor returns a client configuration from the kubeconfig in a Secret. Its connections follow the rules too, and
// it follows no redirects. Errors omit the Secret's content.
func (s Servers) configFor(secret *corev1.Secret) (*rest.Config, error) {
	if err := s.Check(secret); err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data[KubeconfigKey])
	if err != nil {
		// The reason may contain the content.
		return nil, fmt.Errorf("kubeconfig in Secret %s/%s is unusable", secret.Namespace, secret.Name)
	}
	config.Dial = s.dial(secret, environmentProxy(config.Host))
	return config, nil
}

// Values of client-go's own dialer.
const (
	dialTimeout = 30 * time.Second
	keepAlive   = 30 * time.Second
)

// dial returns a dialer that checks each address of a name when it connects, because a name may have other addresses
// than before. environment is the address of a proxy in the environment, which belongs to the administrator and may
// have any address.
func (s Servers) dial(secret *corev1.Secret, environment string) func(context.Context, string, string) (net.Conn,
	error) {
	namespace, name := secret.Namespace, secret.Name
	plain := &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}
	guarded := *plain
	guarded.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
		found, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("read the address of the cluster's server: %w", err)
		}
		if what := s.Refuses(found.Addr()); what != "" {
			return &RefusedError{Namespace: namespace, Name: name, Rule: "the name of its server has " + what + remedy}
		}
		return nil
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == environment {
			return plain.DialContext(ctx, network, address)
		}
		return guarded.DialContext(ctx, network, address)
	}
}

// environmentProxy returns the address of the proxy that the environment sets for a server, or "".
func environmentProxy(server string) string {
	target, err := url.Parse(server)
	if err != nil {
		return ""
	}
	through, err := http.ProxyFromEnvironment(&http.Request{URL: target})
	if err != nil || through == nil {
		return ""
	}
	return AddressOf(through)
}

// AddressOf returns HOST:PORT of a proxy, as transports dial it.
func AddressOf(through *url.URL) string {
	port := through.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[through.Scheme]
	}
	return net.JoinHostPort(through.Hostname(), port)
}

// errRedirect is the error for an answer that sends a request elsewhere.
var errRedirect = errors.New("the cluster answers with a redirect, which Drover does not follow: use the address of " +
	"its API server")

// withoutRedirects fails redirects. A client that follows them sends the cluster's credential to the other server.
type withoutRedirects struct{ next http.RoundTripper }

func refuseRedirects(next http.RoundTripper) http.RoundTripper { return withoutRedirects{next} }

// RoundTrip implements http.RoundTripper.
func (w withoutRedirects) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := w.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	switch answer.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect,
		http.StatusPermanentRedirect:
		_ = answer.Body.Close()
		return nil, errRedirect
	}
	return answer, nil
}

// WrappedRoundTripper returns the wrapped transport, to close its connections.
func (w withoutRedirects) WrappedRoundTripper() http.RoundTripper { return w.next }

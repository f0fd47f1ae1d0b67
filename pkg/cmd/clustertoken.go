package cmd

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientauthv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-io/drover/pkg/operate/table"
	"github.com/drover-io/drover/pkg/reach/clusterproxy"
	"github.com/drover-io/drover/pkg/reach/proxy"
)

const (
	// askFor is the time limit for a token from the server. askBriefly applies while the present token is still valid.
	askFor, askBriefly = 30 * time.Second, 5 * time.Second
	// largestAnswer is the limit for an answer of the server, in bytes.
	largestAnswer = 1 << 20
)

// refusedError is a definite refusal. A repeated request gets the same answer.
type refusedError struct{ error }

// Unwrap returns the answer.
func (e refusedError) Unwrap() error { return e.error }

// forCluster returns the credential for the authorized endpoint of a cluster: a cached token, or a new one from the
// server. If the server is unavailable, a cached token serves until it expires.
func (o *tokenOptions) forCluster(ctx context.Context, config *rest.Config) (*clientauthv1.ExecCredential, error) {
	cache, err := cacheFor(config, o.cluster, o.server)
	if err != nil {
		return nil, err
	}
	present := cache.read()
	if asksOthers(config) && o.isEnough(present, present.Who) {
		// The file belongs to this plugin. While the token is valid for long, the plugin is not asked for the current
		// user.
		return o.handOut(cache, present), nil
	}
	if present.worth("", time.Now()) != worthNothing {
		config = unasked(config)
	}
	who := ""
	own, err := o.own(config, present)
	if err == nil {
		who = whose(own)
	}
	if o.isEnough(present, who) {
		return o.handOut(cache, present), nil
	}
	is := present.worth(who, time.Now())
	var fresh keptToken
	if err == nil {
		fresh, err = o.ask(ctx, config, own, is != worthNothing)
	}
	switch {
	case err == nil:
		fresh.Who, fresh.Client = who, o.client
		_ = cache.write(fresh) // without the cache, the next call asks again
		return fresh.credential(), nil
	case errors.As(err, &refusedError{}):
		cache.forget()
	case is != worthNothing:
		return present.credential(), nil
	}
	return nil, err
}

// isEnough reports whether a token is valid for long for this user, and the cluster has not refused it. A client that
// asks a second time was refused, for example because the keys of the cluster were deleted.
func (o *tokenOptions) isEnough(present keptToken, who string) bool {
	return present.worth(who, time.Now()) == worthEnough && (o.client == 0 || o.client != present.Client)
}

// handOut records the client that gets a cached token, and returns the token as a credential.
func (o *tokenOptions) handOut(cache tokenCache, present keptToken) *clientauthv1.ExecCredential {
	if present.Client = o.client; o.client != 0 {
		_ = cache.write(present)
	}
	return present.credential()
}

// asksOthers reports whether the credential for the management cluster comes from another program. That program may ask
// a server or the user.
func asksOthers(config *rest.Config) bool {
	return config.ExecProvider != nil || config.AuthProvider != nil
}

// unasked returns a configuration whose plugin does not prompt the user.
func unasked(config *rest.Config) *rest.Config {
	if config = rest.CopyConfig(config); config.ExecProvider != nil {
		config.ExecProvider = config.ExecProvider.DeepCopy()
		config.ExecProvider.InteractiveMode = clientcmdapi.NeverExecInteractiveMode
	}
	return config
}

// own returns the credential for the management cluster. A plugin has unlimited time, unless a valid cached token
// exists.
func (o *tokenOptions) own(config *rest.Config, present keptToken) (*clientauthv1.ExecCredential, error) {
	if !asksOthers(config) || present.worth("", time.Now()) == worthNothing {
		return credentialOf(config)
	}
	type answer struct {
		credential *clientauthv1.ExecCredential
		err        error
	}
	answers := make(chan answer, 1)
	go func() {
		credential, err := credentialOf(config)
		answers <- answer{credential, err}
	}()
	select {
	case got := <-answers:
		return got.credential, got.err
	case <-time.After(askBriefly):
		return nil, fmt.Errorf("the plugin in the kubeconfig returns no credential within %s", askBriefly)
	}
}

func (k keptToken) credential() *clientauthv1.ExecCredential {
	return &clientauthv1.ExecCredential{
		TypeMeta: metav1.TypeMeta{APIVersion: clientauthv1.SchemeGroupVersion.String(), Kind: "ExecCredential"},
		Status: &clientauthv1.ExecCredentialStatus{Token: k.Token,
			ExpirationTimestamp: new(metav1.NewTime(k.Expires))},
	}
}

// ask requests a token from the server.
func (o *tokenOptions) ask(ctx context.Context, config *rest.Config, credential *clientauthv1.ExecCredential,
	briefly bool) (keptToken, error) {
	within := askFor
	if briefly {
		within = askBriefly
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	config = rest.CopyConfig(config)
	config.Timeout = within
	namespace, name, _ := strings.Cut(o.cluster, "/")
	finder := &kubeconfigOptions{server: o.server, authority: o.authority,
		inspectOptions: inspectOptions{namespace: namespace}}
	_, way, err := finder.way(ctx, config, name)
	if err != nil {
		return keptToken{}, err
	}
	client, err := clientOf(way.Authority, credential)
	if err != nil {
		return keptToken{}, err
	}
	defer client.CloseIdleConnections()
	return request(ctx, client, way, credential.Status.Token)
}

// clientOf returns a client that trusts these authorities. It presents the client certificate if the credential is one.
// It follows no redirects, so that no other server gets the credential.
func clientOf(authority []byte, credential *clientauthv1.ExecCredential) (*http.Client, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(bytes.TrimSpace(authority)) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(authority) {
			return nil, errors.New("the authorities of Drover's certificate are not PEM")
		}
	}
	if credential.Status.Token == "" {
		pair, err := tls.X509KeyPair([]byte(credential.Status.ClientCertificateData),
			[]byte(credential.Status.ClientKeyData))
		if err != nil {
			return nil, fmt.Errorf("read the client certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return &http.Client{
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: config,
			ForceAttemptHTTP2: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// request posts a request for a token.
func request(ctx context.Context, client *http.Client, way proxy.Proxied, token string) (keptToken, error) {
	began := time.Now()
	code, body, err := send(ctx, client, http.MethodPost, way, clusterproxy.EndpointTokensPrefix, token)
	if err != nil {
		return keptToken{}, fmt.Errorf("request a token: %w", err)
	}
	var given authenticationv1.TokenRequest
	switch {
	case code != http.StatusCreated:
		return keptToken{}, refusal(code, body)
	case json.Unmarshal(body, &given) != nil || given.Status.Token == "":
		return keptToken{}, errors.New("request a token: the answer is not a TokenRequest")
	}
	return keptToken{Token: given.Status.Token, Issued: began, Expires: given.Status.ExpirationTimestamp.Time}, nil
}

// send sends a request about a cluster and returns the answer. The token is empty for clients with a certificate.
func send(ctx context.Context, client *http.Client, method string, way proxy.Proxied, prefix, token string) (code int,
	body []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(way.Server, "/")+prefix+way.ID,
		http.NoBody)
	if err != nil {
		return 0, nil, err
	}
	if token != "" {
		request.Header = http.Header{"Authorization": {"Bearer " + token}}
	}
	answer, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	body, err = io.ReadAll(io.LimitReader(answer.Body, largestAnswer))
	return answer.StatusCode, body, err
}

// refusal returns the error for an answer without a token. Drover refuses with a Kubernetes Status and these codes.
// Every other answer says nothing about the present token: it may come from a load balancer or a login page.
func refusal(code int, body []byte) error {
	message, isStatus := statusIn(code, body)
	err := fmt.Errorf("request a token: the server answers with %d: %s", code, message)
	if isStatus && (code == http.StatusForbidden || code == http.StatusNotFound || code == http.StatusConflict) {
		return refusedError{err}
	}
	return err
}

// statusIn returns the message of an answer, and whether the answer is a Kubernetes Status.
func statusIn(code int, body []byte) (message string, isStatus bool) {
	var status metav1.Status
	if json.Unmarshal(body, &status) == nil && status.Kind == "Status" && status.Message != "" {
		return printable(status.Message), true
	}
	return http.StatusText(code), false
}

// printable replaces control characters, which could change the terminal, with spaces.
func printable(text string) string { return table.Printable(text) }

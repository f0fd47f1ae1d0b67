package entrypoint

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
)

const (
	// patience is how long the relay retries a request while the API is unreachable.
	patience = 15 * time.Minute
	// refusalPatience is how long the relay retries a request that the API rejects. Shortly after its start, an API
	// server knows neither accounts nor rights.
	refusalPatience = time.Minute
	// attemptTimeout is the limit of one attempt.
	attemptTimeout = 30 * time.Second
	// maxBody is more than an API server accepts.
	maxBody = 8 << 20
)

// relay forwards requests from rancher-machine to the API server that stores its state. It repeats requests that a
// restart of the API server lost. rancher-machine itself sends each request once. After the driver has created a
// machine, one failed request fails the Job, and the machine must be replaced (docs/wire/machines.md#machine-state).
type relay struct {
	upstream  *url.URL
	transport http.RoundTripper
	// token authenticates rancher-machine, so that other processes on this host cannot use the Job's rights.
	token  string
	pause  time.Duration
	output io.Writer
	// now is the clock.
	now func() time.Time

	mu     sync.Mutex
	silent bool
}

// withRelay makes rancher-machine use a relay, with a kubeconfig in directory. It returns the arguments unchanged if
// they name no Secret or there is no API. stop stops the relay.
func withRelay(ctx context.Context, c Config, args []string, directory string, output io.Writer) (changed []string,
	stop func(), err error) {
	stop = func() {}
	if !slices.Contains(args, "--secret-name") {
		return args, stop, nil
	}
	at := slices.Index(args, "--kubeconfig")
	kubeconfig, others := "", slices.Clone(args)
	if at >= 0 && at+1 < len(args) {
		kubeconfig, others = args[at+1], slices.Delete(others, at, at+2)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return args, stop, nil //nolint:nilerr // rancher-machine says it better
	}
	r, err := newRelay(config, c.RetryAfter, output)
	if err != nil {
		return nil, stop, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, stop, fmt.Errorf("listen for rancher-machine: %w", err)
	}
	file := filepath.Join(directory, "kubeconfig")
	server, err := r.server(listener.Addr().String(), file)
	if err != nil {
		listener.Close()
		return nil, stop, err
	}
	go func() { _ = server.ServeTLS(listener, "", "") }() // ends with Close
	stop = func() {
		_ = server.Close()
		_ = os.Remove(file)
	}
	return append([]string{"--kubeconfig", file}, others...), stop, nil
}

func newRelay(config *rest.Config, pause time.Duration, output io.Writer) (*relay, error) {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("reach the API: %w", err)
	}
	upstream, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("reach the API: %w", err)
	}
	return &relay{upstream: upstream, transport: transport, token: rand.Text(), pause: pause, output: output,
		now: time.Now}, nil
}

// server returns the HTTP server for an address and writes its kubeconfig. It uses TLS because client-go sends a token
// only over TLS.
func (r *relay) server(address, kubeconfig string) (*http.Server, error) {
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return nil, fmt.Errorf("make a certificate for the relay: %w", err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate for the relay: %w", err)
	}
	err = clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"relay": {Server: "https://" + address,
			CertificateAuthorityData: certificate}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"relay": {Token: r.token}},
		Contexts:       map[string]*clientcmdapi.Context{"relay": {Cluster: "relay", AuthInfo: "relay"}},
		CurrentContext: "relay",
	}, kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("write kubeconfig for rancher-machine: %w", err)
	}
	return &http.Server{
		Handler: r, ReadHeaderTimeout: attemptTimeout, ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
	}, nil
}

// answer is the API's answer.
type answer struct {
	status      int
	contentType string
	body        []byte
}

// ServeHTTP forwards one request, with retries.
func (r *relay) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	shown := strings.TrimPrefix(request.Header.Get("Authorization"), "Bearer ")
	if subtle.ConstantTimeCompare([]byte(shown), []byte(r.token)) != 1 {
		http.Error(w, "this relay serves only rancher-machine", http.StatusUnauthorized)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	got, err := r.insist(request, body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", got.contentType)
	w.WriteHeader(got.status)
	_, _ = w.Write(got.body)
}

// insist repeats a request until the API answers it.
func (r *relay) insist(request *http.Request, body []byte) (answer, error) {
	began, lost := r.now(), false
	for {
		got, err := r.once(request, request.Method, body)
		if err == nil && got.status == http.StatusConflict && lost && r.holds(request, body) {
			// The API processed an earlier attempt, but its answer was lost.
			return answer{status: http.StatusOK, contentType: request.Header.Get("Content-Type"), body: body}, nil
		}
		if request.Context().Err() != nil || final(got, err, r.now().Sub(began)) {
			return got, err
		}
		lost = lost || err != nil || got.status >= http.StatusInternalServerError
		r.sayOnce(got, err)
		select {
		case <-request.Context().Done():
		case <-time.After(r.pause):
		}
	}
}

// final reports whether rancher-machine gets the result of an attempt.
func final(got answer, err error, waited time.Duration) bool {
	switch {
	case err != nil, got.status == http.StatusTooManyRequests, got.status >= http.StatusInternalServerError:
		return waited >= patience
	case got.status == http.StatusUnauthorized, got.status == http.StatusForbidden:
		return waited >= refusalPatience
	default:
		return true
	}
}

// once makes one attempt.
func (r *relay) once(request *http.Request, method string, body []byte) (answer, error) {
	ctx, cancel := context.WithTimeout(request.Context(), attemptTimeout)
	defer cancel()
	target := *r.upstream
	target.Path, target.RawQuery = strings.TrimSuffix(target.Path, "/")+request.URL.Path, request.URL.RawQuery
	next, err := http.NewRequestWithContext(ctx, method, target.String(), bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	for _, name := range []string{"Accept", "Content-Type", "User-Agent"} {
		if value := request.Header.Get(name); value != "" {
			next.Header.Set(name, value)
		}
	}
	response, err := r.transport.RoundTrip(next)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return answer{status: response.StatusCode, contentType: response.Header.Get("Content-Type"), body: content}, err
}

// holds reports whether the Secret in the API has the data that the request wanted to write.
func (r *relay) holds(request *http.Request, body []byte) bool {
	if request.Method != http.MethodPut {
		return false
	}
	got, err := r.once(request, http.MethodGet, nil)
	if err != nil || got.status != http.StatusOK {
		return false
	}
	want, stored := secretOf(body), secretOf(got.body)
	return want != nil && stored != nil && maps.EqualFunc(want.Data, stored.Data, bytes.Equal)
}

// secretOf decodes a Secret from JSON or protobuf. It returns nil for other content.
func secretOf(content []byte) *corev1.Secret {
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(content, nil, nil)
	if err != nil {
		return nil
	}
	secret, _ := obj.(*corev1.Secret)
	return secret
}

// sayOnce prints once what the relay waits for, because users read the output when a machine failed.
func (r *relay) sayOnce(got answer, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.silent {
		return
	}
	r.silent = true
	if err == nil {
		err = fmt.Errorf("it answered %d %s", got.status, http.StatusText(got.status))
	}
	say(r.output, "waiting for the API: "+err.Error())
}

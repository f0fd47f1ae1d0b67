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
	// patience is how long a request is tried while the API is away.
	patience = 15 * time.Minute
	// refusalPatience is how long it is tried while the API refuses it: for a moment after its start an API server knows
	// neither accounts nor rights.
	refusalPatience = time.Minute
	// attemptTimeout bounds one attempt.
	attemptTimeout = 30 * time.Second
	// maxBody is more than an API server takes.
	maxBody = 8 << 20
)

// relay stands between rancher-machine and the API server that keeps its state, and repeats what an API server that is
// being restarted lost. rancher-machine asks once: after the driver has made a machine in the cloud, one refused request
// makes the create fail, and its machine has to be given up (docs/wire/machines.md#machine-state).
type relay struct {
	upstream  *url.URL
	transport http.RoundTripper
	// token is what rancher-machine shows; others on this host have no use for the Job's rights.
	token  string
	pause  time.Duration
	output io.Writer
	// now is the clock.
	now func() time.Time

	mu     sync.Mutex
	silent bool
}

// withRelay lets rancher-machine speak to the API through a relay, by a kubeconfig in directory. The arguments come back
// unchanged when they name no Secret, or there is no API to speak to. stop ends the relay.
func withRelay(ctx context.Context, c Config, args []string, directory string, output io.Writer) (changed []string, stop func(), err error) {
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
	return &relay{upstream: upstream, transport: transport, token: rand.Text(), pause: pause, output: output, now: time.Now}, nil
}

// server prepares to serve at an address, and writes the kubeconfig for it. A token goes over TLS alone: client-go insists.
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
		Clusters:       map[string]*clientcmdapi.Cluster{"relay": {Server: "https://" + address, CertificateAuthorityData: certificate}},
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

// answer is what the API said.
type answer struct {
	status      int
	contentType string
	body        []byte
}

// ServeHTTP forwards one request, again and again if need be.
func (r *relay) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	shown := strings.TrimPrefix(request.Header.Get("Authorization"), "Bearer ")
	if subtle.ConstantTimeCompare([]byte(shown), []byte(r.token)) != 1 {
		http.Error(w, "this relay serves rancher-machine alone", http.StatusUnauthorized)
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
			// An earlier attempt was carried out, and its answer was lost.
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

// final tells whether an attempt's outcome is what rancher-machine gets.
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

// holds tells whether the API has the data of the Secret that request wanted to write.
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

// secretOf decodes a Secret, in JSON or protobuf; nil when it is none.
func secretOf(content []byte) *corev1.Secret {
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(content, nil, nil)
	if err != nil {
		return nil
	}
	secret, _ := obj.(*corev1.Secret)
	return secret
}

// sayOnce says what is waited for, once in the life of the relay: the output is what a user reads when a machine failed.
func (r *relay) sayOnce(got answer, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.silent {
		return
	}
	r.silent = true
	if err == nil {
		err = fmt.Errorf("it answers %d %s", got.status, http.StatusText(got.status))
	}
	say(r.output, "waiting for the API: "+err.Error())
}

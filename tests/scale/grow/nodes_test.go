package grow

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/testkit/fakeagent"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/replica"
	"github.com/drover-io/drover/tests/contract/stage"
)

// Watches of real agents end after 5 to 10 minutes, and agents pause before they connect again.
const (
	shortestWatch, longestWatch = 5 * time.Minute, 10 * time.Minute
	shortestPause, longestPause = 500 * time.Millisecond, 4 * time.Second
)

// nodes are the agents of all machines. Each exchanges the token in its bootstrap data for a connection of its own,
// from the address of its machine, watches its plan Secret, and reports into it. The World reads the plans from one
// watch, which saves this process three thousand decoders. The watches of the agents carry the same events, and are
// only counted.
type nodes struct {
	*testing.T
	server *replica.Replica
	world  *fakeagent.World
	admin  client.Client
	roots  *x509.CertPool
	ctx    context.Context // lives as long as the test
	group  sync.WaitGroup
	// open is the number of watches. events is the number of their events.
	open, events atomic.Int64

	mu        sync.Mutex
	connected map[types.NamespacedName]typedcorev1.SecretInterface
}

func newNodes(t *testing.T, server *replica.Replica) *nodes {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	n := &nodes{T: t, server: server, ctx: ctx, connected: map[types.NamespacedName]typedcorev1.SecretInterface{}}
	t.Cleanup(func() { cancel(); n.group.Wait() })
	return n
}

// trust reads the authority that the server has made.
func (n *nodes) trust(st *stage.Stage) {
	n.Helper()
	secret := &corev1.Secret{}
	if err := st.Client.Get(n.Context(), client.ObjectKey{Namespace: "drover-system", Name: "drover-ca"},
		secret); err != nil {
		n.Fatal(err)
	}
	n.roots = x509.NewCertPool()
	n.roots.AppendCertsFromPEM(secret.Data[corev1.TLSCertKey])
	n.admin = st.Client
}

// secrets returns the client with which the agent of a machine reports.
func (n *nodes) secrets(ctx context.Context, machine types.NamespacedName) (typedcorev1.SecretInterface, error) {
	n.mu.Lock()
	known := n.connected[machine]
	n.mu.Unlock()
	if known != nil {
		return known, nil
	}
	made, err := n.connect(ctx, machine)
	if err != nil {
		return nil, fmt.Errorf("connect %s: %w", machine.Name, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.connected[machine] = made.secrets
	n.group.Go(func() { n.watch(made) })
	return made.secrets, nil
}

// node is the connection of one machine.
type node struct {
	http              *http.Client
	host, token       string
	namespace, secret string
	version           string // of the newest event
	secrets           typedcorev1.SecretInterface
}

// connect exchanges the bootstrap token of a machine.
func (n *nodes) connect(ctx context.Context, machine types.NamespacedName) (*node, error) {
	token, err := n.bootstrapToken(ctx, machine)
	if err != nil {
		return nil, err
	}
	transport := n.transport(n.world.Machines(machine.Namespace)[machine.Name].Address)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, n.server.ServerURL+"/v3/connect/agent",
		http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("X-Cattle-Id", "id-"+machine.Name)
	request.Header.Set("Authorization", "Bearer "+token)
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, errors.New(answer.Status)
	}
	var info struct{ KubeConfig, Namespace, SecretName string }
	if err := json.NewDecoder(answer.Body).Decode(&info); err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(info.KubeConfig))
	if err != nil {
		return nil, err
	}
	core, err := typedcorev1.NewForConfig(&rest.Config{Host: config.Host, BearerToken: config.BearerToken,
		Transport: transport, QPS: -1, UserAgent: fakeagent.Agent,
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}})
	if err != nil {
		return nil, err
	}
	return &node{http: &http.Client{Transport: transport}, host: config.Host, token: config.BearerToken,
		namespace: info.Namespace, secret: info.SecretName, secrets: core.Secrets(info.Namespace)}, nil
}

// transport returns a transport with a connection of its own from the address of a machine, so that the server counts
// the connections as those of different hosts.
func (n *nodes) transport(address string) *http.Transport {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	return &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: n.roots, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true, MaxConnsPerHost: 1,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, n.server.Address)
		},
	}
}

var tokenInScript = regexp.MustCompile(`CATTLE_TOKEN='([^']+)'`)

// bootstrapToken returns the token in the bootstrap data of a machine.
func (n *nodes) bootstrapToken(ctx context.Context, machine types.NamespacedName) (string, error) {
	found := &clusterv1.Machine{}
	if err := n.admin.Get(ctx, machine, found); err != nil {
		return "", err
	}
	if found.Spec.Bootstrap.DataSecretName == nil {
		return "", errors.New("the Machine has no bootstrap data")
	}
	data := &corev1.Secret{}
	if err := n.admin.Get(ctx, client.ObjectKey{Namespace: machine.Namespace,
		Name: *found.Spec.Bootstrap.DataSecretName}, data); err != nil {
		return "", err
	}
	token := tokenInScript.FindSubmatch(data.Data[rkev1.BootstrapDataKey])
	if token == nil {
		return "", errors.New("the bootstrap data contain no token")
	}
	return string(token[1]), nil
}

// watch watches the plan Secret until the test ends. It pauses before each further attempt.
func (n *nodes) watch(of *node) {
	for n.ctx.Err() == nil {
		if err := n.stream(of); err == nil {
			continue // the server ended the watch in time
		}
		select {
		case <-time.After(between(shortestPause, longestPause)):
		case <-n.ctx.Done():
		}
	}
}

func between(shortest, longest time.Duration) time.Duration {
	return shortest + rand.N(longest-shortest)
}

// stream opens one watch and counts its events. Like client-go, it begins with the known version, or with all objects.
func (n *nodes) stream(of *node) error {
	query := url.Values{"watch": {"true"}, "fieldSelector": {"metadata.name=" + of.secret},
		"allowWatchBookmarks": {"true"},
		"timeoutSeconds":      {strconv.Itoa(int(between(shortestWatch, longestWatch).Seconds()))}}
	if of.version != "" {
		query.Set("resourceVersion", of.version)
	}
	request, err := http.NewRequestWithContext(n.ctx, http.MethodGet,
		of.host+"/api/v1/namespaces/"+of.namespace+"/secrets?"+query.Encode(), http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+of.token)
	request.Header.Set("User-Agent", fakeagent.Agent)
	request.Header.Set("Accept", runtime.ContentTypeJSON)
	answer, err := of.http.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		of.version = ""
		return errors.New(answer.Status)
	}
	n.open.Add(1)
	defer n.open.Add(-1)
	return n.count(of, bufio.NewReaderSize(answer.Body, 1024))
}

var resourceVersion = regexp.MustCompile(`"resourceVersion":"(\d+)"`)

// count reads events until the stream ends, without their objects.
func (n *nodes) count(of *node, in *bufio.Reader) error {
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if found := resourceVersion.FindSubmatch(line); found != nil {
			of.version = string(found[1])
		}
		n.events.Add(1)
	}
}

// await waits until that many watches are open.
func (n *nodes) await(want int, limit time.Duration) {
	n.Helper()
	plane.Until(n, limit, func() string {
		if got := int(n.open.Load()); got < want {
			return fmt.Sprintf("%d of %d agents are connected", got, want)
		}
		return ""
	})
}

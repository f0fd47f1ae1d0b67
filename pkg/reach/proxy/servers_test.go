package proxy

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

var inCluster = Servers{Management: []string{"10.96.0.1"}}

// kubeconfigTo is a valid kubeconfig for a server.
func kubeconfigTo(t *testing.T, server string, authority []byte, edits ...func(*clientcmdapi.Cluster)) stored {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: authority}
	for _, edit := range edits {
		edit(config.Clusters["c"])
	}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "secret-token"}
	config.Contexts["c"], config.CurrentContext = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}, "c"
	content, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	return stored(content)
}

// A kubeconfig that users can write sends Drover only to addresses that a cluster can have.
func TestServers_RefuseAddresses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		server, want string
		servers      Servers
	}{
		"an address":               {server: "https://10.0.0.1:6443"},
		"an IPv6 address":          {server: "https://[fd00::7]:6443"},
		"a name":                   {server: "https://api.example.org"},
		"loopback":                 {server: "https://127.0.0.1:6443", want: "a loopback address"},
		"all of loopback":          {server: "https://127.9.9.9", want: "a loopback address"},
		"loopback of IPv6":         {server: "https://[::1]:6443", want: "a loopback address"},
		"loopback in IPv6":         {server: "https://[::ffff:127.0.0.1]", want: "a loopback address"},
		"localhost":                {server: "https://LocalHost:6443", want: "a loopback address"},
		"localhost with a dot":     {server: "https://localhost.:6443", want: "a loopback address"},
		"a name below localhost":   {server: "https://x.localhost", want: "a loopback address"},
		"the metadata of a cloud":  {server: "https://169.254.169.254", want: "a link-local address"},
		"link-local of IPv6":       {server: "https://[fe80::1%25eth0]:6443", want: "a link-local address"},
		"unspecified":              {server: "https://0.0.0.0:6443", want: "an unspecified address"},
		"unspecified of IPv6":      {server: "https://[::]:6443", want: "an unspecified address"},
		"multicast":                {server: "https://224.0.0.1", want: "a multicast or broadcast"},
		"multicast of IPv6":        {server: "https://[ff02::1]", want: "a multicast or broadcast"},
		"broadcast":                {server: "https://255.255.255.255", want: "a multicast or broadcast"},
		"the management cluster":   {server: "https://10.96.0.1", want: "the address of the management cluster"},
		"the same in IPv6":         {server: "https://[::ffff:10.96.0.1]", want: "of the management cluster"},
		"without TLS":              {server: "http://10.0.0.1:6443", want: "is not an https URL"},
		"without a scheme":         {server: "10.0.0.1:6443", want: "is not an https URL"},
		"no server":                {server: "", want: "is not an https URL"},
		"loopback, allowed":        {server: "https://127.0.0.1:6443", servers: Servers{AllowLoopback: true}},
		"localhost, allowed":       {server: "https://localhost", servers: Servers{AllowLoopback: true}},
		"link-local with loopback": {"https://169.254.169.254", "a link-local", Servers{AllowLoopback: true}},
	} {
		servers := tc.servers
		if !servers.AllowLoopback {
			servers = inCluster
		}
		secrets := kubeconfigTo(t, tc.server, authority(t))
		expectRefusal(t, name, secrets, servers, tc.want)
	}
}

// A kubeconfig that users can write gets nothing else from Drover than a verified connection to its server.
func TestServers_RefuseOtherWays(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		edit func(*clientcmdapi.Cluster)
		want string
	}{
		"a proxy":         {func(c *clientcmdapi.Cluster) { c.ProxyURL = "http://evil:1" }, "remove proxy-url"},
		"another name":    {func(c *clientcmdapi.Cluster) { c.TLSServerName = "evil" }, "remove tls-server-name"},
		"no verification": {func(c *clientcmdapi.Cluster) { c.InsecureSkipTLSVerify = true }, "skip-tls-verify"},
	} {
		secrets := kubeconfigTo(t, "https://10.0.0.1:6443", nil, tc.edit)
		expectRefusal(t, name, secrets, inCluster, tc.want)
	}
	large := kubeconfigTo(t, "https://10.0.0.1:6443", []byte(strings.Repeat("x", 256<<10)))
	expectRefusal(t, "a large kubeconfig", large, inCluster, "larger than 256 KiB")
}

// expectRefusal reads a kubeconfig as Cluster API does, and as Drover does if it allows no authority.
func expectRefusal(t *testing.T, name string, secrets stored, servers Servers, want string) {
	t.Helper()
	demo := types.NamespacedName{Namespace: "n", Name: "demo"}
	_, err := NewWays(nil, secrets, servers).RESTConfig(t.Context(), demo)
	refused := new(RefusedError)
	if (err == nil) != (want == "") || err != nil && (!errors.As(err, &refused) ||
		!strings.Contains(err.Error(), want) ||
		!strings.Contains(err.Error(), "Secret n/demo-kubeconfig") || strings.Contains(err.Error(), "secret-token")) {
		t.Errorf("%s: error %v, want one with %q", name, err, want)
	}
	if _, own := NewClients(secrets, 0, servers).Client(t.Context(), demo); (own == nil) != (want == "") {
		t.Errorf("%s: Drover's own client has the error %v", name, own)
	}
}

// The addresses of a name are checked when Drover connects, and a redirect is an error.
func TestServers_CheckConnections(t *testing.T) {
	t.Parallel()
	var elsewhere, asked atomic.Int32
	other := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(other.Close)
	cluster := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.Redirect(w, r, other.URL+"/version", http.StatusTemporaryRedirect)
	}))
	t.Cleanup(cluster.Close)
	trusted := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cluster.Certificate().Raw})
	_, port, _ := strings.Cut(strings.TrimPrefix(cluster.URL, "https://"), ":")
	demo := types.NamespacedName{Namespace: "n", Name: "demo"}
	for name, tc := range map[string]struct {
		server, want string
		servers      Servers
		asked        int32
	}{
		// getaddrinfo reads both as 127.0.0.1. Resolvers that do not, fail.
		"a short form of loopback": {server: "https://127.1:" + port, servers: inCluster},
		"a number":                 {server: "https://2130706433:" + port, servers: inCluster},
		"a redirect": {server: cluster.URL, servers: Servers{AllowLoopback: true}, asked: 2,
			want: "answers with a redirect"},
	} {
		asked.Store(0)
		secrets := kubeconfigTo(t, tc.server, trusted)
		own, err := NewClients(secrets, time.Minute, tc.servers).Client(t.Context(), demo)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		config, err := NewWays(nil, secrets, tc.servers).RESTConfig(t.Context(), demo)
		if err != nil {
			t.Fatal(err)
		}
		others, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		for _, client := range []kubernetes.Interface{own, others} {
			if _, err := client.Discovery().ServerVersion(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: error %v, want one with %q", name, err, tc.want)
			}
		}
		if asked.Load() != tc.asked || elsewhere.Load() != 0 {
			t.Errorf("%s: the server got %d requests, and the other one %d", name, asked.Load(), elsewhere.Load())
		}
	}
}

// TestServers_DialRefusesResolvedAddresses uses the name of this host's loopback interface, as DNS may return it.
func TestServers_DialRefusesResolvedAddresses(t *testing.T) {
	t.Parallel()
	listener := httptest.NewServer(nil)
	t.Cleanup(listener.Close)
	_, port, _ := strings.Cut(strings.TrimPrefix(listener.URL, "http://"), ":")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "demo-kubeconfig"}}
	for name, tc := range map[string]struct {
		servers Servers
		want    string
	}{
		"refused": {inCluster, "Secret n/demo-kubeconfig is refused: the name of its server has a loopback"},
		"allowed": {Servers{AllowLoopback: true}, ""},
		"the management cluster": {Servers{AllowLoopback: true, Management: []string{"127.0.0.1", "::1"}},
			"the address of the management cluster"},
	} {
		connection, err := tc.servers.dial(secret, "")(t.Context(), "tcp", "localhost:"+port)
		if err == nil {
			_ = connection.Close()
		}
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, tc.want)
		}
	}
}

// The administrator's proxy may have any address.
func TestServers_DialReachesTheProxyOfTheEnvironment(t *testing.T) {
	t.Parallel()
	listener := httptest.NewServer(nil)
	t.Cleanup(listener.Close)
	address := strings.TrimPrefix(listener.URL, "http://")
	connection, err := Servers{}.dial(&corev1.Secret{}, address)(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	_ = connection.Close()
	for through, want := range map[string]string{
		"http://proxy.example.org": "proxy.example.org:80", "https://proxy.example.org": "proxy.example.org:443",
		"socks5://proxy.example.org": "proxy.example.org:1080", "http://[::1]:3128": "[::1]:3128",
	} {
		parsed, err := url.Parse(through)
		if err != nil {
			t.Fatal(err)
		}
		if got := AddressOf(parsed); got != want {
			t.Errorf("%s has the address %s, want %s", through, got, want)
		}
	}
}

// authority is the certificate of a test server.
func authority(t *testing.T) []byte {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	t.Cleanup(server.Close)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

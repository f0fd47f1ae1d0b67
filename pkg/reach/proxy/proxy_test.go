package proxy_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-io/drover/pkg/reach/proxy"
)

var demo = types.NamespacedName{Namespace: "fleet-default", Name: "demo"}

// captured is the kubeconfig that a K3s server prints, with the given authority and token.
func captured(t *testing.T, server string, authority []byte, edits ...func(*clientcmdapi.Config)) []byte {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["default"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: authority}
	config.AuthInfos["default"] = &clientcmdapi.AuthInfo{Token: "secret-token"}
	config.Contexts["default"] = &clientcmdapi.Context{Cluster: "default", AuthInfo: "default"}
	config.CurrentContext = "default"
	for _, edit := range edits {
		edit(config)
	}
	encoded, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

func TestCapture_WritesForAnotherAddress(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ server, address, want string }{
		"an IPv4 address":             {"https://127.0.0.1:6443", "198.18.0.7", "https://198.18.0.7:6443"},
		"an IPv6 address":             {"https://[::1]:6443", "fd00::7", "https://[fd00::7]:6443"},
		"an IPv6 address in brackets": {"https://[::1]:6443", "[fd00::7]", "https://[fd00::7]:6443"},
		"a host name":                 {"https://127.0.0.1:6443", "node.example", "https://node.example:6443"},
		"another port":                {"https://127.0.0.1:7443", "198.18.0.7", "https://198.18.0.7:7443"},
		"no port":                     {"https://127.0.0.1", "198.18.0.7", "https://198.18.0.7:6443"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			access, err := proxy.Capture(captured(t, c.server, []byte("authority")))
			if err != nil {
				t.Fatal(err)
			}
			first, err := access.Kubeconfig(c.address)
			if err != nil {
				t.Fatal(err)
			}
			second, err := access.Kubeconfig(c.address)
			if err != nil || string(first) != string(second) {
				t.Errorf("two kubeconfigs differ, error %v", err)
			}
			config, err := clientcmd.Load(first)
			if err != nil {
				t.Fatal(err)
			}
			cluster, user := config.Clusters["cluster"], config.AuthInfos["user"]
			if cluster.Server != c.want || string(cluster.CertificateAuthorityData) != "authority" ||
				user.Token != "secret-token" {
				t.Errorf("server %s, want %s", cluster.Server, c.want)
			}
			if config.CurrentContext != "default" {
				t.Errorf("current context %q", config.CurrentContext)
			}
		})
	}
}

// TestCapture_RefusesDangerousKubeconfigs: dangerous kubeconfigs from a node are refused.
func TestCapture_RefusesDangerousKubeconfigs(t *testing.T) {
	t.Parallel()
	cases := map[string]func(*clientcmdapi.Config){
		"runs a program": func(c *clientcmdapi.Config) {
			c.AuthInfos["default"].Exec = &clientcmdapi.ExecConfig{
				Command: "/bin/sh", APIVersion: "client.authentication.k8s.io/v1",
				InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
			}
		},
		"uses a plugin": func(c *clientcmdapi.Config) {
			c.AuthInfos["default"].AuthProvider = &clientcmdapi.AuthProviderConfig{Name: "oidc"}
		},
		"reads a token file": func(c *clientcmdapi.Config) { c.AuthInfos["default"].TokenFile = "/etc/shadow" },
		"reads a certificate": func(c *clientcmdapi.Config) {
			c.AuthInfos["default"].ClientCertificate = "/etc/shadow"
		},
		"reads a key": func(c *clientcmdapi.Config) { c.AuthInfos["default"].ClientKey = "/etc/shadow" },
		"reads an authority": func(c *clientcmdapi.Config) {
			c.Clusters["default"].CertificateAuthority = "/etc/shadow"
		},
		"skips the verification": func(c *clientcmdapi.Config) { c.Clusters["default"].InsecureSkipTLSVerify = true },
		"has no authority": func(c *clientcmdapi.Config) {
			c.Clusters["default"].CertificateAuthorityData = nil
		},
		"uses a proxy":            func(c *clientcmdapi.Config) { c.Clusters["default"].ProxyURL = "http://evil" },
		"impersonates a user":     func(c *clientcmdapi.Config) { c.Clusters["default"].TLSServerName = "evil" },
		"impersonates":            func(c *clientcmdapi.Config) { c.AuthInfos["default"].Impersonate = "admin" },
		"has no credential":       func(c *clientcmdapi.Config) { c.AuthInfos["default"].Token = "" },
		"has no current context":  func(c *clientcmdapi.Config) { c.CurrentContext = "" },
		"names an absent cluster": func(c *clientcmdapi.Config) { c.Contexts["default"].Cluster = "other" },
		"names an absent user":    func(c *clientcmdapi.Config) { c.Contexts["default"].AuthInfo = "other" },
	}
	for name, edit := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := proxy.Capture(captured(t, "https://127.0.0.1:6443", []byte("authority"), edit))
			if err == nil {
				t.Fatal("accepted")
			}
			if strings.Contains(err.Error(), "secret-token") {
				t.Errorf("error %q contains the credential", err)
			}
		})
	}
	for name, output := range map[string][]byte{
		"not YAML": []byte("{secret-token"), "nothing": nil,
		"too large": []byte(strings.Repeat("# secret-token\n", 20000)),
	} {
		if _, err := proxy.Capture(output); err == nil || strings.Contains(err.Error(), "secret-token") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestAccess_IsMasked(t *testing.T) {
	t.Parallel()
	access, err := proxy.Capture(captured(t, "https://127.0.0.1:6443", []byte("authority")))
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if shown := fmt.Sprintf(format, access); strings.Contains(shown, "secret-token") {
			t.Errorf("%s contains %s", format, shown)
		}
	}
	for _, address := range []string{"", "a/b", "user@host", "a b"} {
		if _, err := access.Kubeconfig(address); err == nil {
			t.Errorf("address %q accepted", address)
		}
	}
}

func TestSecret_HasTheFormClusterAPIReads(t *testing.T) {
	t.Parallel()
	owner := metav1.OwnerReference{APIVersion: "provisioning.cattle.io/v1", Kind: "Cluster", Name: "demo", UID: "u"}
	want := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "fleet-default", Name: "demo-kubeconfig", OwnerReferences: []metav1.OwnerReference{owner},
			Labels: map[string]string{"cluster.x-k8s.io/cluster-name": "demo"},
		},
		Type: "cluster.x-k8s.io/secret",
		Data: map[string][]byte{"value": []byte("k")},
	}
	if diff := cmp.Diff(want, proxy.Secret("fleet-default", "demo", owner, []byte("k"))); diff != "" {
		t.Error(diff)
	}
}

// secrets is a cache of one Secret.
type secrets struct {
	secret *corev1.Secret
	err    error
}

func (s *secrets) Get(namespace, name string) (*corev1.Secret, error) {
	if s.err != nil {
		return nil, s.err
	}
	if s.secret == nil || s.secret.Namespace != namespace || s.secret.Name != name {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
	}
	return s.secret, nil
}

// downstream is an API server that answers /version once it is up.
func downstream(t *testing.T) (*secrets, *atomic.Bool, <-chan struct{}) {
	t.Helper()
	var up atomic.Bool
	asked := make(chan struct{}, 100)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		if !up.Load() || r.Header.Get("Authorization") != "Bearer secret-token" {
			http.Error(w, "no", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte(`{"gitVersion":"v1.36.2"}`))
	}))
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	access, err := proxy.Capture(captured(t, server.URL, authority))
	if err != nil {
		t.Fatal(err)
	}
	address, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := access.Kubeconfig(address.Hostname())
	if err != nil {
		t.Fatal(err)
	}
	secret := proxy.Secret("fleet-default", "demo", metav1.OwnerReference{}, kubeconfig)
	secret.UID, secret.ResourceVersion = "u", "1"
	return &secrets{secret: secret}, &up, asked
}

func TestClients_AreBuiltOncePerVersion(t *testing.T) {
	t.Parallel()
	cache, up, _ := downstream(t)
	up.Store(true)
	clients := proxy.NewClients(cache, time.Second, proxy.Servers{AllowLoopback: true})
	first, err := clients.Client(t.Context(), demo)
	if err != nil {
		t.Fatal(err)
	}
	if version, err := first.Discovery().ServerVersion(); err != nil || version.GitVersion != "v1.36.2" {
		t.Errorf("version %v, error %v", version, err)
	}
	second, err := clients.Client(t.Context(), demo)
	if err != nil || first != second {
		t.Errorf("a second client was created, error %v", err)
	}
	changed := cache.secret.DeepCopy()
	changed.ResourceVersion = "2"
	cache.secret = changed
	third, err := clients.Client(t.Context(), demo)
	if err != nil || first == third {
		t.Errorf("the client of an old Secret is used, error %v", err)
	}
	clients.Forget(demo)
	config, err := clients.RESTConfig(t.Context(), demo)
	if err != nil || config.Timeout != time.Second {
		t.Errorf("config %v, error %v", config, err)
	}
}

func TestClients_ExplainAMissingClient(t *testing.T) {
	t.Parallel()
	broken := proxy.Secret("fleet-default", "demo", metav1.OwnerReference{}, []byte("secret-token: {"))
	cases := map[string]struct {
		cache *secrets
		wait  bool
	}{
		"no Secret yet": {&secrets{}, true},
		"cache fails":   {&secrets{err: errors.New("cache is missing")}, false},
		"broken Secret": {&secrets{secret: broken}, false},
		"no value":      {&secrets{secret: proxy.Secret("fleet-default", "demo", metav1.OwnerReference{}, nil)}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clients := proxy.NewClients(c.cache, 0, proxy.Servers{AllowLoopback: true})
			_, err := clients.Client(t.Context(), demo)
			if err == nil || errors.Is(err, proxy.ErrNotAvailable) != c.wait {
				t.Fatalf("error %v, want it to mean waiting: %v", err, c.wait)
			}
			if strings.Contains(err.Error(), "secret-token") {
				t.Errorf("error %q contains the Secret", err)
			}
			if _, err := clients.RESTConfig(t.Context(), demo); err == nil {
				t.Error("a config without a kubeconfig")
			}
		})
	}
}

func TestProber_WakesWhenTheClusterAnswers(t *testing.T) {
	t.Parallel()
	cache, up, asked := downstream(t)
	woken := make(chan string, 10)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	clients := proxy.NewClients(cache, time.Second, proxy.Servers{AllowLoopback: true})
	prober := proxy.NewProber(ctx, clients, func(namespace, name string) {
		woken <- namespace + "/" + name
	})
	if prober.Answered(demo) {
		t.Fatal("an answer without a request")
	}
	<-asked
	up.Store(true)
	if got := <-woken; got != "fleet-default/demo" {
		t.Errorf("woken %s", got)
	}
	if !prober.Answered(demo) {
		t.Error("did not answer")
	}
	if len(woken) != 0 {
		t.Error("woken twice")
	}
	changed := cache.secret.DeepCopy()
	changed.ResourceVersion = "2"
	cache.secret = changed
	if prober.Answered(demo) {
		t.Error("a new kubeconfig must be tried")
	}
	<-woken
	prober.Forget(demo)
	if prober.Answered(types.NamespacedName{Namespace: "fleet-default", Name: "absent"}) {
		t.Error("a cluster without a kubeconfig answered")
	}
}

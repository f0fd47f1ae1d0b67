package leastprivilege

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-io/drover/pkg/testkit/rights"
)

// part is the part of Drover that sends a request, named after its role.
type part string

const (
	// own is Drover's controllers and endpoints.
	own part = rights.Own
	// core is Cluster API's core, which runs in Drover.
	core part = rights.Core
)

// recorder is a proxy between Drover and the API server. It records the requests with Drover's token.
type recorder struct {
	// kubeconfig leads to the recorder.
	kubeconfig []byte

	resolver request.RequestInfoResolver
	bearer   string
	mu       sync.Mutex
	asked    map[part]map[rights.Request]int
	refused  map[rights.Request]part
}

// newRecorder starts a recorder in front of the API server until the test ends.
func newRecorder(t *testing.T, upstream *rest.Config, token string) *recorder {
	t.Helper()
	r := &recorder{
		resolver: &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"),
			GrouplessAPIPrefixes: sets.NewString("api")},
		bearer: "Bearer " + token,
		asked:  map[part]map[rights.Request]int{own: {}, core: {}}, refused: map[rights.Request]part{},
	}
	// Only the token identifies the client.
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(upstream))
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(upstream.Host)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = target.Scheme, target.Host, ""
		},
		ModifyResponse: func(response *http.Response) error {
			r.note(response)
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	})
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	r.kubeconfig, err = clientcmd.Write(clientcmdapi.Config{
		CurrentContext: "drover",
		Contexts:       map[string]*clientcmdapi.Context{"drover": {Cluster: "drover", AuthInfo: "drover"}},
		Clusters: map[string]*clientcmdapi.Cluster{"drover": {
			Server: server.URL,
			CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
				Bytes: server.Certificate().Raw}),
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"drover": {Token: token}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *recorder) note(response *http.Response) {
	if response.Request.Header.Get("Authorization") != r.bearer {
		return // an agent with its own credential
	}
	info, err := r.resolver.NewRequestInfo(response.Request)
	if err != nil || !info.IsResourceRequest {
		return // discovery, which every user may use
	}
	asked := rights.Request{Verb: info.Verb, Group: info.APIGroup, Resource: info.Resource, Namespace: info.Namespace,
		Name: info.Name}
	if info.Subresource != "" {
		asked.Resource += "/" + info.Subresource
	}
	if asked.Group == "" && asked.Resource == "namespaces" {
		asked.Namespace = "" // for the resolver, a Namespace is in itself
	}
	by := own
	if strings.Contains(response.Request.UserAgent(), "cluster.x-k8s.io/") {
		by = core
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked[by][asked]++
	if asked.Verb == "patch" && response.StatusCode == http.StatusCreated {
		made := asked // an apply of a missing object needs both permissions
		made.Verb = "create"
		r.asked[by][made]++
	}
	if response.StatusCode == http.StatusForbidden {
		r.refused[asked] = by
	}
}

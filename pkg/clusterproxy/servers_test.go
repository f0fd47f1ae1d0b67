package clusterproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
)

// Where the servers of an endpoint are is told to who is let through to the cluster, and to nobody else.
func TestEndpointServers_WhoIsTold(t *testing.T) {
	w := newWorld(t)
	jane, stranger := w.user("jane", "demo", "away", "off", "young", "broken"), w.user("eve")
	for _, name := range []string{"demo", "away", "off", "young", "broken"} {
		w.cluster(name, nil)
	}
	w.endpoints("c-m-demo", "c-m-away", "c-m-broken")
	w.options.EndpointServers = func(_ context.Context, id string) (EndpointServers, error) {
		switch id {
		case "c-m-away":
			return EndpointServers{}, fmt.Errorf("ask it: %w", errNotConnected)
		case "c-m-broken":
			return EndpointServers{}, errors.New("secret detail")
		}
		return EndpointServers{Servers: map[string]string{"b": "https://b:6443", "a": "https://a:6443"}, Authority: []byte("theirs")}, nil
	}
	server := w.proxy()
	answer, body := ask(t, server, http.MethodGet, EndpointsPrefix+"c-m-demo", jane)
	var got clientcmdv1.Config
	check(t, json.Unmarshal([]byte(body), &got))
	want := clientcmdv1.Config{Kind: "Config", APIVersion: "v1", Clusters: []clientcmdv1.NamedCluster{
		{Name: "a", Cluster: clientcmdv1.Cluster{Server: "https://a:6443", CertificateAuthorityData: []byte("theirs")}},
		{Name: "b", Cluster: clientcmdv1.Cluster{Server: "https://b:6443", CertificateAuthorityData: []byte("theirs")}},
	}}
	if diff := cmp.Diff(want, got); diff != "" || answer.StatusCode != http.StatusOK || answer.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v (-want +got):\n%s", answer.StatusCode, answer.Header, diff)
	}
	for name, c := range map[string]struct {
		method, path, token string
		code                int
		says                string
	}{
		"a stranger":                         {http.MethodGet, EndpointsPrefix + "c-m-demo", stranger, 403, `"c-m-demo"`},
		"a stranger, of none":                {http.MethodGet, EndpointsPrefix + "c-m-none", stranger, 403, `"c-m-none"`},
		"nobody":                             {http.MethodGet, EndpointsPrefix + "c-m-demo", "unknown", 401, ""},
		"a cluster that is not connected":    {http.MethodGet, EndpointsPrefix + "c-m-away", jane, 503, "c-m-away"},
		"a cluster without an endpoint":      {http.MethodGet, EndpointsPrefix + "c-m-off", jane, 409, "spec.localClusterAuthEndpoint.enabled"},
		"one whose keys are not there":       {http.MethodGet, EndpointsPrefix + "c-m-young", jane, 503, "not there yet"},
		"one that cannot be asked":           {http.MethodGet, EndpointsPrefix + "c-m-broken", jane, 503, "this server cannot find out"},
		"somebody who posts":                 {http.MethodPost, EndpointsPrefix + "c-m-demo", jane, 405, "GET"},
		"somebody who asks for more of them": {http.MethodGet, EndpointsPrefix + "c-m-demo/a", jane, 404, "names no cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			answer, body := ask(t, server, c.method, c.path, c.token)
			if status := statusOf(t, answer, body); answer.StatusCode != c.code || !strings.Contains(status.Message, c.says) || strings.Contains(body, "secret detail") {
				t.Errorf("answered with %d: %s", answer.StatusCode, body)
			}
		})
	}
}

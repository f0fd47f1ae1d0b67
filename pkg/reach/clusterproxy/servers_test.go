package clusterproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
)

// Only callers with access to the cluster get the addresses of the endpoint's servers.
func TestEndpointServers_Access(t *testing.T) {
	w := newWorld(t)
	jane, stranger := w.user("jane", "demo", "away", "off", "young", "broken"), w.user("eve")
	for _, name := range []string{"demo", "away", "off", "young", "broken"} {
		w.cluster(name, nil)
	}
	w.endpoints("c-m-demo", "c-m-away", "c-m-broken")
	w.options.EndpointServers = func(string) (map[string]string, error) {
		return map[string]string{"b": "https://b:6443", "a": "https://a:6443"}, nil
	}
	w.options.EndpointAuthority = func(_ context.Context, id string) ([]byte, error) {
		switch id {
		case "c-m-away":
			return nil, fmt.Errorf("ask the cluster: %w", errNotConnected)
		case "c-m-broken":
			return nil, errors.New("secret detail")
		}
		return []byte("theirs"), nil
	}
	server := w.proxy()
	answer, body := ask(t, server, http.MethodGet, EndpointsPrefix+"c-m-demo", jane)
	var got clientcmdv1.Config
	check(t, json.Unmarshal([]byte(body), &got))
	want := clientcmdv1.Config{Kind: "Config", APIVersion: "v1", Clusters: []clientcmdv1.NamedCluster{
		{Name: "a", Cluster: clientcmdv1.Cluster{Server: "https://a:6443", CertificateAuthorityData: []byte("theirs")}},
		{Name: "b", Cluster: clientcmdv1.Cluster{Server: "https://b:6443", CertificateAuthorityData: []byte("theirs")}},
	}}
	if diff := cmp.Diff(want, got); diff != "" || answer.StatusCode != http.StatusOK ||
		answer.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v (-want +got):\n%s", answer.StatusCode, answer.Header, diff)
	}
	for name, c := range map[string]struct {
		method, path, token string
		code                int
		says                string
	}{
		"an unknown caller": {http.MethodGet, EndpointsPrefix + "c-m-demo", stranger, 403,
			`"c-m-demo"`},
		"an unknown caller, of no cluster": {http.MethodGet, EndpointsPrefix + "c-m-none", stranger, 403,
			`"c-m-none"`},
		"nobody":                          {http.MethodGet, EndpointsPrefix + "c-m-demo", "unknown", 401, ""},
		"a cluster that is not connected": {http.MethodGet, EndpointsPrefix + "c-m-away", jane, 503, "c-m-away"},
		"a cluster without an endpoint": {http.MethodGet, EndpointsPrefix + "c-m-off", jane, 409,
			"spec.localClusterAuthEndpoint.enabled"},
		"an endpoint whose keys do not exist": {http.MethodGet, EndpointsPrefix + "c-m-young", jane, 503,
			"do not exist yet"},
		"a cluster that cannot be asked": {http.MethodGet, EndpointsPrefix + "c-m-broken", jane, 503,
			"this server cannot check"},
		"a POST request":            {http.MethodPost, EndpointsPrefix + "c-m-demo", jane, 405, "GET"},
		"a path with more segments": {http.MethodGet, EndpointsPrefix + "c-m-demo/a", jane, 404, "contains no cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			answer, body := ask(t, server, c.method, c.path, c.token)
			if status := statusOf(t, answer, body); answer.StatusCode != c.code ||
				!strings.Contains(status.Message, c.says) || strings.Contains(body, "secret detail") {
				t.Errorf("answered with %d: %s", answer.StatusCode, body)
			}
		})
	}
}

// A cluster is asked once for all users, and the same holds for a failure.
func TestEndpointServers_AreCached(t *testing.T) {
	w := newWorld(t)
	jane := w.user("jane", "demo", "broken")
	w.cluster("demo", nil)
	w.cluster("broken", nil)
	w.endpoints("c-m-demo", "c-m-broken")
	var mu sync.Mutex
	asked := map[string]int{}
	w.options.EndpointServers = func(string) (map[string]string, error) { return nil, nil }
	w.options.EndpointAuthority = func(_ context.Context, id string) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		if asked[id]++; id == "c-m-broken" {
			return nil, errors.New("it fails")
		}
		return []byte("theirs"), nil
	}
	server := w.proxy()
	var asking sync.WaitGroup
	for range 20 {
		asking.Go(func() {
			for id, want := range map[string]int{"c-m-demo": http.StatusOK,
				"c-m-broken": http.StatusServiceUnavailable} {
				answer, err := get(t.Context(), server, EndpointsPrefix+id, jane)
				if err != nil || answer.StatusCode != want {
					t.Errorf("%s: %v, %v", id, answer, err)
					return
				}
				_ = answer.Body.Close()
			}
		})
	}
	asking.Wait()
	if diff := cmp.Diff(map[string]int{"c-m-demo": 1, "c-m-broken": 1}, asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

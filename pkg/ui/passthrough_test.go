package ui

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
)

func TestObjects_PassAsTheCaller(t *testing.T) {
	applied := secretObject("team-a", "s", map[string]string{"password": "hidden-value"})
	applied.Annotations = map[string]string{copyOfObject: `{"data":{"password":"hidden-value"}}`, "short": "kept",
		"long": strings.Repeat("x", 300)}
	f := newFakeAPI(t, cluster("team-a", "demo"), applied)
	p := signedIn(t, f)
	base := "/ui/api/v1/k8s/"
	demo := decode[provv1.Cluster](t, p.get(base+"apis/provisioning.cattle.io/v1/namespaces/team-a/clusters/demo"))
	if demo.Name != "demo" {
		t.Errorf("got %+v", demo)
	}
	for path, kind := range map[string]string{
		"api/v1/namespaces/team-a/secrets/s": "PartialObjectMetadata",
		"api/v1/namespaces/team-a/secrets":   "PartialObjectMetadataList",
		"api/v1/secrets":                     "PartialObjectMetadataList",
	} {
		got := p.get(base + path)
		if text := got.Body.String(); got.Code != http.StatusOK || !strings.Contains(text, `"`+kind+`"`) ||
			strings.Contains(text, "hidden") || strings.Contains(text, "xxx") ||
			!strings.Contains(text, `"short":"kept"`) {
			t.Errorf("%s: %d %s", path, got.Code, text)
		}
	}
	if got := p.get(base + "api/v1/namespaces/team-a/secrets?limit=1"); got.Code != http.StatusOK {
		t.Errorf("got %d %s", got.Code, got.Body)
	}
	wants(t, p.get(base+"api/v1/namespaces/team-a/configmaps/absent"), http.StatusNotFound, reasonNotFound)
	f.forbid("ann", "team-b")
	wants(t, p.get(base+"api/v1/namespaces/team-b/pods"), http.StatusForbidden, reasonForbidden)
}

func TestObjects_Refuse(t *testing.T) {
	f := newFakeAPI(t)
	p := signedIn(t, f)
	f.ResetLog()
	base := "/ui/api/v1/k8s/"
	for path, want := range map[string]int{
		"api/v1/pods?watch=true":                                 400,
		"api/v1/pods?watch":                                      400,
		"api/v1/watch/pods":                                      400,
		"api/v1/namespaces/a/pods/p/log?follow=true":             400,
		"api/v1/namespaces/a/pods/p/exec?command=sh":             403,
		"api/v1/namespaces/a/pods/p/attach":                      403,
		"api/v1/namespaces/a/pods/p/portforward":                 403,
		"api/v1/namespaces/a/pods/p/proxy/x":                     403,
		"api/v1/namespaces/a/services/s/proxy":                   403,
		"api/v1/proxy/nodes/n":                                   400,
		"api/v1/nodes/n/proxy/logs":                              403,
		"metrics":                                                403,
		"logs/kube-apiserver.log":                                403,
		"debug/pprof/heap":                                       403,
		"openapi/v2":                                             403,
		"k8s/clusters/c-m-1/api":                                 403,
		"":                                                       403,
		"api/v1/namespaces/a/pods/../../../../metrics":           400,
		"api/v1/namespaces/a/pods/..%2f..%2fmetrics":             400,
		"api/v1//pods":                                           400,
		"apis/provisioning.cattle.io/v1/clusters%3fwatch=true":   400,
		"api/v1/namespaces/a/serviceaccounts/default/token/more": 403,
	} {
		got := p.do(p.request(http.MethodGet, base+path, ""))
		if got.Code != want {
			t.Errorf("%s: %d %s, want %d", path, got.Code, got.Body, want)
		}
		p.relax()
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		wants(t, p.do(p.request(method, base+"api/v1/namespaces/a/pods/p", "{}")), http.StatusNotFound, reasonNotFound)
	}
	if len(f.Log()) != 0 {
		t.Errorf("requests to the API server: %v", f.Log())
	}
}

// An API server that ignores the request for metadata must not show a Secret.
func TestWithoutValues_RefusesWholeSecrets(t *testing.T) {
	whole, err := json.Marshal(secretObject("a", "s", map[string]string{"k": "hidden-value"}))
	check(t, err)
	for name, data := range map[string]string{"a Secret": string(whole), "a list": `{"kind":"SecretList","items":[` +
		string(whole) + `]}`, "no object": `[]`} {
		if got, err := withoutValues([]byte(data)); err == nil {
			t.Errorf("%s: %s", name, got)
		}
	}
}

package ui

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

func TestRemoval_IsForTheSeenCluster(t *testing.T) {
	demo := cluster("team-a", "demo")
	demo.Annotations = map[string]string{rkev1.ProtectAnnotation: "true"}
	f := newFakeAPI(t, demo)
	p := signedIn(t, f)
	removal := decode[removalBody](t, p.get(demoPath+"/removal"))
	if removal.Cluster != "team-a/demo" || !strings.Contains(removal.Refused, "protected") || removal.Seen == "" {
		t.Errorf("got %+v", removal)
	}
	wants(t, p.send(http.MethodDelete, "", "", ""), http.StatusPreconditionRequired, reasonInvalid)
	wants(t, p.send(http.MethodDelete, "", "If-Match", removal.Seen), http.StatusUnprocessableEntity, reasonInvalid)
	f.changeDemo(t, func(c *unstructured.Unstructured) { c.SetAnnotations(nil) })
	wants(t, p.send(http.MethodDelete, "", "If-Match", removal.Seen), http.StatusPreconditionFailed, reasonChanged)
	removal = decode[removalBody](t, p.get(demoPath+"/removal"))
	f.changeDemo(t, func(c *unstructured.Unstructured) {
		c.Object["status"] = map[string]any{"observedGeneration": int64(1)}
	}, "status")
	if got := p.send(http.MethodDelete, "", "If-Match", `"`+removal.Seen+`"`); got.Code != http.StatusNoContent {
		t.Errorf("got %d %s", got.Code, got.Body)
	}
	wants(t, p.get(demoPath+"/removal"), http.StatusNotFound, reasonNotFound)
	if diff := cmp.Diff([]string{"DELETE clusters/demo"}, f.sent()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func TestRemoval_ARepeatedRequestDeletesNothing(t *testing.T) {
	p := signedIn(t, newFakeAPI(t, cluster("team-a", "demo")))
	removal := decode[removalBody](t, p.get(demoPath+"/removal"))
	remove := func() *httptest.ResponseRecorder {
		r := p.request(http.MethodDelete, demoPath, "")
		r.Header.Set("If-Match", removal.Seen)
		r.Header.Set(attemptHeader, "one")
		return p.do(r)
	}
	if got := remove(); got.Code != http.StatusNoContent {
		t.Errorf("got %d %s", got.Code, got.Body)
	}
	wants(t, remove(), http.StatusBadGateway, reasonUnknown)
}

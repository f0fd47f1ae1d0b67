package ui

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/operate/edit"
)

// demoText is a cluster of existing hosts.
const demoText = `apiVersion: provisioning.cattle.io/v1
kind: Cluster
metadata:
  name: demo
  namespace: team-a
spec:
  kubernetesVersion: v1.36.2+k3s1
  rkeConfig:
    machinePools: []
`

const demoPath = "/ui/api/v1/namespaces/team-a/clusters/demo"

func (p *page) preview(text string) previewBody {
	p.t.Helper()
	p.relax()
	return decode[previewBody](p.t, p.do(p.request(http.MethodPost, demoPath+"/preview", text)))
}

// put writes a text with headers such as If-Match.
func (p *page) put(text string, headers ...string) *httptest.ResponseRecorder {
	p.t.Helper()
	p.relax()
	r := p.request(http.MethodPut, demoPath, text)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return p.do(r)
}

// writes are the writes of ann that change objects.
func (f *fakeAPI) stored(t *testing.T, name string) *provv1.Cluster {
	t.Helper()
	client, err := dynamic.NewForConfig(f.Config("admin"))
	check(t, err)
	found, err := client.Resource(provv1.SchemeGroupVersion.WithResource("clusters")).Namespace("team-a").Get(
		t.Context(), name, metav1.GetOptions{})
	check(t, err)
	typed, err := edit.Typed(found)
	check(t, err)
	return typed
}

func TestChanges_PreviewThenWrite(t *testing.T) {
	f := newFakeAPI(t)
	p := signedIn(t, f)
	seen := p.preview(demoText)
	if seen.Seen != "" || len(seen.Problems) > 0 || seen.Report == nil || !seen.Report.New {
		t.Fatalf("preview of a new cluster: %+v", seen)
	}
	wants(t, p.put(demoText), http.StatusPreconditionRequired, reasonInvalid)
	got := decode[writtenBody](t, p.put(demoText, "If-None-Match", "*"))
	if diff := cmp.Diff([]string{"Cluster team-a/demo"}, got.Written); diff != "" {
		t.Error(diff)
	}
	wants(t, p.put(demoText, "If-None-Match", "*"), http.StatusConflict, reasonExists)
	seen = p.preview(demoText)
	if seen.Seen == "" || len(seen.Problems) > 0 || seen.Report.New {
		t.Fatalf("preview: %+v", seen)
	}
	manifest := p.get(demoPath + "/manifest")
	if manifest.Header().Get("ETag") != `"`+seen.Seen+`"` {
		t.Errorf("ETag %s, want %s", manifest.Header(), seen.Seen)
	}
}

package ui

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/testkit/fakeagent"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

// attackPath is where the cluster answers with a page that attacks Drover.
const attackPath = "/attack"

// attack is a page that requests Drover's endpoints in every way that needs no script, and tries to run one.
const attack = `<!doctype html><title>attack</title>
<script>document.title = "script ran"</script>
<img src="/ui/api/v1/session"><script src="/ui/api/v1/namespaces"></script>
<link rel="stylesheet" href="/ui/api/v1/administration">
<iframe src="/ui/api/v1/session"></iframe><iframe src="/ui/clusters"></iframe>
<form action="/ui/api/v1/session" method="post" enctype="text/plain"><button>Send</button></form>`

// attacked returns the API of a cluster that answers with the attack at attackPath.
func attacked(api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, attackPath) {
			api.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, attack)
	})
}

// TestUISecurity checks the headers and the cookies of the UI, and that no page violates its policy. It attacks the UI:
// with injected scripts, with forged requests, from another origin, and from a page that a cluster answers.
func TestUISecurity(t *testing.T) {
	st := stage.Start(t, stage.Settings{UI: true, Machines: func(o *fakeagent.Options) {
		api := o.API
		o.API = func() http.Handler { return attacked(api()) }
	}})
	namespace := plane.Namespace(t)
	st.Cluster(namespace, "demo", stage.K3s, stage.Pool("server", "ecw", 1))
	plane.Until(t, clusterTime, func() string { return st.WaitingFor(namespace, "demo") })
	cluster := &provv1.Cluster{}
	check(t, st.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "demo"}, cluster))
	foreign := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!doctype html><title>foreign</title><iframe src="%s/ui/clusters"></iframe>`, st.URL)
	}))
	t.Cleanup(foreign.Close)
	browse(t, "security", map[string]string{
		"URL": st.URL, "TOKEN": administrator(t, namespace), "NAMESPACE": namespace, "FOREIGN": foreign.URL,
		"ATTACK": "/k8s/clusters/" + cluster.Status.ClusterName + attackPath,
	}, nil)
}

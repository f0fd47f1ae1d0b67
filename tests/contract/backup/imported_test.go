package backup

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

// imported is a cluster that was made elsewhere, and what its agent is made from: the manifest that a person has applied there carries a token.
type imported struct {
	id, path string
	agent    []string
}

// kept are the parts of a manifest by which the agent that runs in the cluster knows Drover, and Drover it. The address is the test's.
var kept = regexp.MustCompile(`(?m)^  token: \S+$|CATTLE_CA_CHECKSUM\n +value: \S+$`)

// importCluster makes the Cluster of one that was made elsewhere, and fetches its manifest.
func importCluster(t *testing.T, st *stage.Stage, namespace, name string) imported {
	t.Helper()
	check(t, st.Client.Create(t.Context(), &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}))
	var out imported
	plane.Until(t, time.Minute, func() string {
		cluster := &provv1.Cluster{}
		check(t, st.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, cluster))
		if cluster.Status.ClusterName == "" {
			return name + " has no management cluster"
		}
		token := &corev1.Secret{}
		if err := st.Client.Get(t.Context(), client.ObjectKey{Namespace: cluster.Status.ClusterName, Name: "crt-token-default-token"}, token); err != nil {
			return err.Error()
		}
		out.id = cluster.Status.ClusterName
		out.path = fmt.Sprintf("/v3/import/%s_%s.yaml", token.Data["token"], out.id)
		status, manifest := fetch(t, st, out.path)
		if out.agent = kept.FindAllString(manifest, -1); status != http.StatusOK || len(out.agent) != 2 {
			return fmt.Sprintf("the manifest is answered with %d: %s", status, manifest)
		}
		return ""
	})
	return out
}

// awaitSame waits until a stage gives the same agent to the cluster: that which runs there is let in with the token of its manifest.
func (i imported) awaitSame(t *testing.T, st *stage.Stage) {
	t.Helper()
	plane.Until(t, time.Minute, func() string {
		status, manifest := fetch(t, st, i.path)
		if diff := cmp.Diff(i.agent, kept.FindAllString(manifest, -1)); status != http.StatusOK || diff != "" {
			return fmt.Sprintf("the manifest is answered with %d (-before +after):\n%s", status, diff)
		}
		return ""
	})
}

func fetch(t *testing.T, st *stage.Stage, path string) (status int, body string) {
	t.Helper()
	answer := httptest.NewRecorder()
	st.Server.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
	return answer.Code, answer.Body.String()
}

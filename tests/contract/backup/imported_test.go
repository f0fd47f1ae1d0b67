package backup

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/local/managementplane"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

// imported is an imported cluster with the manifest of its agent. A user has applied that manifest, which contains a
// token, in the cluster.
type imported struct {
	key             client.ObjectKey
	id, path, token string
	agent           []string
}

// kept matches the parts of a manifest by which the running agent and Drover identify each other. The address is the
// test's.
var kept = regexp.MustCompile(`(?m)^  token: \S+$|CATTLE_CA_CHECKSUM\n +value: \S+$`)

// importCluster creates the Cluster of an imported cluster and fetches its manifest.
func importCluster(t *testing.T, st *stage.Stage, namespace, name string) imported {
	t.Helper()
	check(t, st.Client.Create(t.Context(),
		&provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}))
	out := imported{key: client.ObjectKey{Namespace: namespace, Name: name}}
	plane.Until(t, time.Minute, func() string {
		cluster := &provv1.Cluster{}
		check(t, st.Client.Get(t.Context(), out.key, cluster))
		if cluster.Status.ClusterName == "" {
			return name + " has no management cluster"
		}
		out.id = cluster.Status.ClusterName
		var err error
		if out.token, err = out.present(t, st); err != nil {
			return err.Error()
		}
		out.path = fmt.Sprintf("/v3/import/%s_%s.yaml", out.token, out.id)
		status, manifest := fetch(t, st, out.path)
		if out.agent = kept.FindAllString(manifest, -1); status != http.StatusOK || len(out.agent) != 2 {
			return fmt.Sprintf("the request for the manifest gets %d: %s", status, manifest)
		}
		return ""
	})
	return out
}

// present returns the token that a stage gives to the agent of the cluster.
func (i imported) present(t *testing.T, st *stage.Stage) (string, error) {
	t.Helper()
	secret := &corev1.Secret{}
	err := st.Client.Get(t.Context(), client.ObjectKey{Namespace: i.id, Name: "crt-token-default-token"}, secret)
	return string(secret.Data["token"]), err
}

// expectSame waits until a stage has finished the adoption of the cluster. It checks that the token and the authority
// are still those of the running agent. The manifest alone is no proof, because it repeats the token of the request,
// even an old one.
func (i imported) expectSame(t *testing.T, st *stage.Stage, p *managementplane.Plane) {
	t.Helper()
	plane.Until(t, time.Minute, func() string {
		cluster := &provv1.Cluster{}
		check(t, st.Client.Get(t.Context(), i.key, cluster))
		if cluster.Annotations[rkev1.BlockMoveAnnotation] == "" {
			return i.key.String() + " is not managed yet"
		}
		lately := time.Now().Add(-5 * time.Second)
		for _, write := range slices.Concat(writes(t, p, i.key.Namespace, lately), writes(t, p, i.id, lately)) {
			if write.Namespace == i.id || write.Name == i.key.Name {
				return fmt.Sprintf("last write: %+v", write)
			}
		}
		status, manifest := fetch(t, st, i.path)
		if diff := cmp.Diff(i.agent, kept.FindAllString(manifest, -1)); status != http.StatusOK || diff != "" {
			return fmt.Sprintf("the request for the manifest gets %d (-before +after):\n%s", status, diff)
		}
		return ""
	})
	token, err := i.present(t, st)
	check(t, err)
	if token != i.token {
		t.Error("the agent of the imported cluster has an old token")
	}
}

// remove deletes the cluster and waits until none of its objects is left.
func (i imported) remove(t *testing.T, st *stage.Stage) {
	t.Helper()
	cluster := &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: i.key.Namespace, Name: i.key.Name}}
	check(t, st.Client.Delete(t.Context(), cluster))
	for _, object := range []client.Object{
		cluster, &mgmtv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: i.id}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: i.id}},
	} {
		plane.Until(t, 2*time.Minute, func() string { return st.Gone(object) })
	}
}

func fetch(t *testing.T, st *stage.Stage, path string) (status int, body string) {
	t.Helper()
	answer := httptest.NewRecorder()
	st.Server.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
	return answer.Code, answer.Body.String()
}

package ui

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/operate/edit"
	"github.com/drover-io/drover/pkg/operate/preview"
	"github.com/drover-io/drover/tests/contract/plane"
)

const shopText = `apiVersion: provisioning.cattle.io/v1
kind: Cluster
metadata:
  name: shop
  labels:
    team: a
spec:
  kubernetesVersion: v1.36.2+k3s1
  rkeConfig:
    machinePools:
    - name: all
      quantity: 1
      etcdRole: true
      controlPlaneRole: true
      workerRole: true
      machineConfigRef:
        kind: BoxConfig
        name: shop-all
---
apiVersion: rke-machine-config.cattle.io/v1
kind: BoxConfig
metadata:
  name: shop-all
size: small
`

// user sends requests with a token.
type user struct {
	t     *testing.T
	w     *world
	token string
}

// answer is what the endpoints for changes answer.
type answer struct {
	code     int
	Seen     string          `json:"seen"`
	Report   *preview.Report `json:"report"`
	Problems []edit.Problem  `json:"problems"`
	Written  []string        `json:"written"`
	Error    string          `json:"error"`
	Reason   string          `json:"reason"`
	Refused  string          `json:"refused"`
}

// send sends a request to an endpoint of Cluster shop. An address that sends too much waits, as a page does.
func (u user) send(method, what, body, header, value string) answer {
	u.t.Helper()
	address := u.w.server.URL + "/ui/api/v1/namespaces/" + u.w.own + "/clusters/shop" + what
	for {
		r, err := http.NewRequestWithContext(u.t.Context(), method, address, strings.NewReader(body))
		check(u.t, err)
		r.Header.Set("Authorization", "Bearer "+u.token)
		if header != "" {
			r.Header.Set(header, value)
		}
		got, err := u.w.server.Client().Do(r)
		check(u.t, err)
		data, err := io.ReadAll(got.Body)
		check(u.t, err)
		check(u.t, got.Body.Close())
		if got.StatusCode == http.StatusTooManyRequests {
			<-time.After(time.Second)
			continue
		}
		out := answer{code: got.StatusCode}
		if len(data) > 0 {
			check(u.t, json.Unmarshal(data, &out))
		}
		return out
	}
}

func (u user) preview(text string) answer { return u.send(http.MethodPost, "/preview", text, "", "") }

func (u user) put(text, seen string) answer {
	if seen == "" {
		return u.send(http.MethodPut, "", text, "If-None-Match", "*")
	}
	return u.send(http.MethodPut, "", text, "If-Match", `"`+seen+`"`)
}

// wants compares the code and the reason of an answer.
func (a answer) wants(t *testing.T, code int, reason string) {
	t.Helper()
	if a.code != code || a.Reason != reason {
		t.Errorf("got %d %s: %s %v, want %d %s", a.code, a.Reason, a.Error, a.Problems, code, reason)
	}
}

// withBoxes makes the API server serve the machine configs of a driver, which the tenant may write.
func (w *world) withBoxes(t *testing.T) {
	t.Helper()
	spec := mgmtv3.DynamicSchemaSpec{ResourceFields: map[string]mgmtv3.Field{"size": {Type: "string"}}}
	definitions, err := apiextclient.NewForConfig(plane.Config(t, "contract-tests"))
	check(t, err)
	_, err = crds.Ensure(t.Context(), definitions.ApiextensionsV1().CustomResourceDefinitions(),
		driverschema.CRDs("box", spec), crds.Options{})
	check(t, err)
	check(t, client.IgnoreAlreadyExists(w.Create(t.Context(), &mgmtv3.DynamicSchema{
		ObjectMeta: metav1.ObjectMeta{Name: "boxconfig"}, Spec: spec})))
	for _, object := range []client.Object{
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: w.own, Name: "boxes"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{driverschema.ConfigGroup}, Resources: []string{"*"}, Verbs: []string{"*"}}}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: w.own, Name: "boxes"},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "boxes"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: w.own, Name: "tenant"}}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "schemas-" + w.own}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"management.cattle.io"}, Resources: []string{"dynamicschemas"},
				Verbs: []string{"get", "list"}}}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "schemas-" + w.own},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "schemas-" + w.own},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: w.own, Name: "tenant"},
				{Kind: "ServiceAccount", Namespace: w.own, Name: "viewer"}}},
	} {
		check(t, w.Create(t.Context(), object))
	}
}

// viewer creates an account that may only read. It returns a token.
func (w *world) viewer(t *testing.T) string {
	t.Helper()
	for _, object := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.own, Name: "viewer"}},
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: w.own, Name: "viewer"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list"}}}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: w.own, Name: "viewer"},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "viewer"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: w.own, Name: "viewer"}}},
	} {
		check(t, w.Create(t.Context(), object))
	}
	got, err := w.admin.CoreV1().ServiceAccounts(w.own).CreateToken(t.Context(), "viewer",
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	check(t, err)
	return got.Status.Token
}

// shop reads the Cluster.
func (w *world) shop(t *testing.T) *provv1.Cluster {
	t.Helper()
	out := &provv1.Cluster{}
	check(t, w.Get(t.Context(), client.ObjectKey{Namespace: w.own, Name: "shop"}, out))
	return out
}

// TestUIChanges takes one cluster from its creation to its deletion. Each write needs the preview of the same state.
func TestUIChanges(t *testing.T) {
	w := newWorld(t)
	tenant := user{t, w, w.tenant(t)}
	viewer := user{t, w, w.viewer(t)}
	w.withBoxes(t)

	seen := tenant.preview(shopText)
	if seen.code != http.StatusOK || seen.Seen != "" || len(seen.Problems) > 0 || seen.Report == nil ||
		!seen.Report.New {
		t.Fatalf("preview of a new cluster: %+v", seen)
	}
	created := tenant.put(shopText, "")
	if diff := cmp.Diff([]string{"BoxConfig " + w.own + "/shop-all", "Cluster " + w.own + "/shop"},
		created.Written); diff != "" {
		t.Fatalf("%+v (-want +got):\n%s", created, diff)
	}
	tenant.put(shopText, "").wants(t, http.StatusConflict, "AlreadyExists")
	tenant.put(shopText, "0123").wants(t, http.StatusPreconditionFailed, "Changed")

	edited := strings.Replace(shopText, "quantity: 1", "quantity: 3", 1)
	seen = tenant.preview(edited)
	if len(seen.Problems) > 0 || seen.Seen == "" {
		t.Fatalf("preview: %+v", seen)
	}
	before := w.shop(t)
	before.Status.ObservedGeneration = 7 // a status is no obstacle
	check(t, w.Status().Update(t.Context(), before))
	if got := tenant.put(edited, seen.Seen); len(got.Written) != 1 {
		t.Errorf("after a status: %+v", got)
	}
	after := w.shop(t)
	if *after.Spec.RKEConfig.MachinePools[0].Quantity != 3 || after.Status.ObservedGeneration != 7 ||
		after.Generation != before.Generation+1 {
		t.Errorf("the stored Cluster is %+v", after)
	}
	if got := tenant.put(edited, tenant.preview(edited).Seen); got.code != http.StatusOK || len(got.Written) != 0 ||
		w.shop(t).ResourceVersion != after.ResourceVersion {
		t.Errorf("the same text: %+v", got)
	}
	w.foreignEdits(t, tenant, edited)
	w.badTexts(t, tenant, edited)
	w.reads(t, viewer, edited)
	w.deletes(t, tenant)
}

// foreignEdits shows that an edit of another user refuses a write.
func (w *world) foreignEdits(t *testing.T, tenant user, text string) {
	t.Helper()
	for name, change := range map[string]func(c *provv1.Cluster){
		"a label": func(c *provv1.Cluster) { c.Labels["more"] = "b" },
		"the spec": func(c *provv1.Cluster) {
			c.Spec.RKEConfig.MachinePools[0].Quantity = new(int32(5))
		},
	} {
		seen := tenant.preview(text).Seen
		cluster := w.shop(t)
		change(cluster)
		check(t, w.Update(t.Context(), cluster))
		got := tenant.put(text, seen)
		got.wants(t, http.StatusPreconditionFailed, "Changed")
		if w.shop(t).ResourceVersion != cluster.ResourceVersion {
			t.Errorf("%s: the write of an old state overwrites it", name)
		}
	}
	if got := tenant.put(text, tenant.preview(text).Seen); len(got.Written) != 1 || w.shop(t).Labels["more"] != "" {
		t.Errorf("after another preview: %+v", got)
	}
}

// badTexts shows that the API server's refusals are at their lines, and that nothing is written.
func (w *world) badTexts(t *testing.T, tenant user, text string) {
	t.Helper()
	before := w.shop(t).ResourceVersion
	for name, tc := range map[string]struct {
		old, changed string
		line         int
		field        string
	}{
		"a value of a wrong type": {"quantity: 3", "quantity: many", 12,
			"spec.rkeConfig.machinePools[0].quantity"},
		"a value that the schema refuses": {"quantity: 3", "quantity: -3", 12,
			"spec.rkeConfig.machinePools[0].quantity"},
		"an unknown field":             {"quantity: 3", "size: 3", 12, "spec.rkeConfig.machinePools[0].size"},
		"a wrong type in a config":     {"size: small", "size: [small]", 24, "size"},
		"an unknown field of a config": {"size: small", "color: red", 24, "color"},
	} {
		bad := strings.Replace(text, tc.old, tc.changed, 1)
		seen := tenant.preview(bad)
		if len(seen.Problems) == 0 || seen.Problems[0].Line != tc.line || seen.Problems[0].Field != tc.field {
			t.Errorf("%s: %+v, want line %d and field %s", name, seen.Problems, tc.line, tc.field)
		}
		got := tenant.put(bad, tenant.preview(text).Seen)
		if got.wants(t, http.StatusUnprocessableEntity, "Invalid"); len(got.Problems) == 0 ||
			got.Problems[0].Line != tc.line {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if w.shop(t).ResourceVersion != before {
		t.Error("a refused text is written")
	}
}

// reads shows that a user who may only read gets the preview, and no write.
func (w *world) reads(t *testing.T, viewer user, text string) {
	t.Helper()
	before := w.shop(t).ResourceVersion
	changed := strings.Replace(text, "quantity: 3", "quantity: 1", 1)
	seen := viewer.preview(changed)
	if seen.Report == nil || len(seen.Problems) == 0 || !strings.Contains(seen.Problems[0].Message, "is forbidden") {
		t.Errorf("preview of a viewer: %+v", seen)
	}
	viewer.put(changed, seen.Seen).wants(t, http.StatusForbidden, "Forbidden")
	removal := viewer.send(http.MethodGet, "/removal", "", "", "")
	viewer.send(http.MethodDelete, "", "", "If-Match", removal.Seen).wants(t, http.StatusForbidden, "Forbidden")
	if cluster := w.shop(t); cluster.ResourceVersion != before || cluster.DeletionTimestamp != nil {
		t.Error("a viewer writes")
	}
}

// deletes requests the deletion of exactly the Cluster that the user has seen.
func (w *world) deletes(t *testing.T, tenant user) {
	t.Helper()
	removal := tenant.send(http.MethodGet, "/removal", "", "", "")
	if removal.code != http.StatusOK || removal.Seen == "" || removal.Refused != "" {
		t.Fatalf("removal: %+v", removal)
	}
	tenant.send(http.MethodDelete, "", "", "", "").wants(t, http.StatusPreconditionRequired, "Invalid")
	cluster := w.shop(t)
	cluster.Labels = map[string]string{"more": "c"}
	check(t, w.Update(t.Context(), cluster))
	tenant.send(http.MethodDelete, "", "", "If-Match", removal.Seen).wants(t, http.StatusPreconditionFailed, "Changed")
	removal = tenant.send(http.MethodGet, "/removal", "", "", "")
	tenant.send(http.MethodDelete, "", "", "If-Match", removal.Seen).wants(t, http.StatusNoContent, "")
	tenant.send(http.MethodGet, "/removal", "", "", "").wants(t, http.StatusNotFound, "NotFound")
}

package ui

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/kube/capi"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/releases"
	webui "github.com/drover-io/drover/pkg/ui"
	"github.com/drover-io/drover/tests/contract/plane"
)

func TestMain(m *testing.M) { os.Exit(plane.Main(m, plane.Options{})) }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// world is a management cluster with two namespaces, and the UI over it.
type world struct {
	client.Client
	admin  kubernetes.Interface
	server *httptest.Server
	// own is the namespace of the tenant, other that of another one.
	own, other string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	config := plane.Config(t, "contract-tests")
	admin, err := kubernetes.NewForConfig(config)
	check(t, err)
	core, err := capi.Definitions()
	check(t, err)
	definitions, err := apiextclient.NewForConfig(config)
	check(t, err)
	_, err = crds.Ensure(t.Context(), definitions.ApiextensionsV1().CustomResourceDefinitions(), core, crds.Options{})
	check(t, err)
	scheme, err := clients.NewScheme()
	check(t, err)
	c, err := client.New(config, client.Options{Scheme: scheme})
	check(t, err)
	table, err := releases.Embedded()
	check(t, err)
	w := &world{Client: c, admin: admin, own: plane.Namespace(t), other: plane.Namespace(t)}
	ending := make(chan struct{})
	handler, err := webui.New(webui.Options{Config: config, Key: webui.Key(admin, w.own), Version: "v1.2.3",
		Releases: table, Ending: ending})
	check(t, err)
	w.server = httptest.NewUnstartedServer(handler)
	w.server.EnableHTTP2 = true
	w.server.StartTLS()
	t.Cleanup(func() { close(ending); w.server.Close() })
	return w
}

// tenant creates an account that may edit Clusters in its namespace, and read Secrets. It returns a token.
func (w *world) tenant(t *testing.T) string {
	t.Helper()
	for _, object := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.own, Name: "tenant"}},
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: w.own, Name: "tenant"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"provisioning.cattle.io", "rke.cattle.io", "cluster.x-k8s.io"},
				Resources: []string{"*"}, Verbs: []string{"*"}},
			{APIGroups: []string{""}, Resources: []string{"secrets", "configmaps", "events"},
				Verbs: []string{"get", "list"}}}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: w.own, Name: "tenant"},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "tenant"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: w.own, Name: "tenant"}}},
	} {
		check(t, w.Create(t.Context(), object))
	}
	got, err := w.admin.CoreV1().ServiceAccounts(w.own).CreateToken(t.Context(), "tenant",
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	check(t, err)
	return got.Status.Token
}

func (w *world) cluster(t *testing.T, namespace, name string) {
	t.Helper()
	check(t, w.Create(t.Context(), &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: provv1.ClusterSpec{KubernetesVersion: "v1.36.2+k3s1", RKEConfig: &provv1.RKEConfig{}}}))
}

// browser sends requests as a page of the UI does.
type browser struct {
	t    *testing.T
	base string
	http *http.Client
}

func (w *world) browser(t *testing.T) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	check(t, err)
	http := w.server.Client()
	http.Jar = jar
	return &browser{t, w.server.URL + "/ui/api/v1/", http}
}

func (b *browser) do(method, path, body string) (int, string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.base+path, strings.NewReader(body))
	check(b.t, err)
	r.Header.Set("Content-Type", "application/json")
	answer, err := b.http.Do(r)
	check(b.t, err)
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	check(b.t, err)
	return answer.StatusCode, string(data)
}

func (b *browser) wants(path string, code int, parts ...string) {
	b.t.Helper()
	got, body := b.do(http.MethodGet, path, "")
	for ; got == http.StatusTooManyRequests; got, body = b.do(http.MethodGet, path, "") {
		<-time.After(time.Second)
	}
	if got != code {
		b.t.Errorf("%s: %d %s, want %d", path, got, body, code)
	}
	for _, part := range parts {
		if !strings.Contains(body, part) {
			b.t.Errorf("%s: no %s in %s", path, part, body)
		}
	}
}

func (b *browser) signIn(token string) int {
	b.t.Helper()
	body, err := json.Marshal(map[string]string{"token": token})
	check(b.t, err)
	code, _ := b.do(http.MethodPost, "session", string(body))
	return code
}

// TestUIEndpoints signs in as a tenant, whose rights decide every answer.
func TestUIEndpoints(t *testing.T) {
	w := newWorld(t)
	token := w.tenant(t)
	w.cluster(t, w.own, "demo")
	w.cluster(t, w.other, "demo")
	check(t, w.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.own, Name: "s"},
		StringData: map[string]string{"password": "hidden-value"}}))
	b := w.browser(t)
	b.wants("session", http.StatusUnauthorized)
	if code := b.signIn("no-token"); code != http.StatusUnauthorized {
		t.Errorf("sign in with another token: %d", code)
	}
	if code := b.signIn(token); code != http.StatusOK {
		t.Fatalf("sign in: %d", code)
	}
	b.wants("session", http.StatusOK, `"user":"system:serviceaccount:`+w.own+`:tenant"`, `"mode":"server"`)
	b.wants("namespaces", http.StatusOK, `{"all":false,"namespaces":[]}`)
	b.wants("namespaces/"+w.own+"/access", http.StatusOK, `{"clusters":"edit"}`)
	b.wants("namespaces/"+w.other+"/access", http.StatusOK, `{"clusters":"none"}`)
	own, other := "namespaces/"+w.own+"/clusters/", "namespaces/"+w.other+"/clusters/"
	for what, parts := range map[string][]string{
		"diagnose": {`"findings"`}, "explain": {`"cluster":"` + w.own + `/demo"`},
		"events": {`{"items":[]}`}, "manifest": {"name: demo"},
	} {
		b.wants(own+"demo/"+what, http.StatusOK, parts...)
		b.wants(own+"absent/"+what, http.StatusNotFound, `"reason":"NotFound"`)
		b.wants(other+"demo/"+what, http.StatusForbidden, `"reason":"Forbidden"`)
	}
	b.wants(own+"demo/supportbundle", http.StatusOK)
	b.wants(own+"demo/logs", http.StatusNotFound)
	b.wants("administration", http.StatusOK, `"reason":"Forbidden"`, `"kubernetes":"v1.`)
	objects := "k8s/api/v1/namespaces/" + w.own + "/secrets"
	for _, path := range []string{objects, objects + "/s"} {
		b.wants(path, http.StatusOK, "PartialObjectMetadata", `"name":"s"`)
		if _, body := b.do(http.MethodGet, path, ""); strings.Contains(body, "hidden") ||
			strings.Contains(body, "aGlkZGVuLXZhbHVl") {
			t.Errorf("%s shows a value: %s", path, body)
		}
	}
	b.wants("k8s/api/v1/namespaces/"+w.other+"/secrets", http.StatusForbidden)
	b.wants("k8s/apis/provisioning.cattle.io/v1/namespaces/"+w.own+"/clusters/demo", http.StatusOK, `"name":"demo"`)
	w.stream(t, b)
}

// stream follows a selection with a namespace that the tenant may not read, until the account is deleted.
func (w *world) stream(t *testing.T, b *browser) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.base+"stream?namespaces="+w.own+","+w.other, nil)
	check(t, err)
	answer, err := b.http.Do(r)
	check(t, err)
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	until := func(parts ...string) {
		t.Helper()
		event := ""
		for lines.Scan() {
			if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				event = name
			}
			text := event + " " + lines.Text()
			if strings.Contains(text, w.other+"/") || strings.Contains(text, `"namespace":"`+w.other+`","name"`) {
				t.Fatalf("a row of another tenant: %s", text)
			}
			found := true
			for _, part := range parts {
				found = found && strings.Contains(text, part)
			}
			if found {
				return
			}
		}
		t.Fatalf("the stream ended before %v: %v", parts, lines.Err())
	}
	until("rows", `"name":"demo"`)
	w.cluster(t, w.own, "second")
	until("rows", `"name":"second"`)
	check(t, w.Delete(t.Context(), &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.own, Name: "second"}}))
	until("rows", `"gone":["`+w.own+`/second"]`)
	check(t, w.Delete(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.own,
		Name: "tenant"}}))
	until("signedout")
}

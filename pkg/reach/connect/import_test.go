package connect

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/clustermanifest"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/registration"
)

// management are management clusters by name.
type management map[string]*mgmtv3.Cluster

func (m management) Get(name string) (*mgmtv3.Cluster, error) {
	if cluster, ok := m[name]; ok {
		return cluster, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "clusters"}, name)
}

// crt is the Secret of a registration token. The purpose "" means all.
func crt(cluster, name string, purpose registration.Purpose, data ...string) *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: "crt-token-" + name},
		Data: map[string][]byte{}}
	if purpose != registration.Any {
		secret.Labels = map[string]string{mgmtv3.TokenPurposeLabel: string(purpose)}
	}
	for i := 0; i < len(data); i += 2 {
		secret.Data[data[i]] = []byte(data[i+1])
	}
	return secret
}

// withRegistrations adds clusters c-m-1 with tokens of all kinds, c-m-2 with one token, and c-m-3, which is being
// deleted.
func (w *world) withRegistrations() management {
	w.t.Helper()
	gone := metav1.Now()
	clusters := management{
		"c-m-1": {ObjectMeta: metav1.ObjectMeta{Name: "c-m-1"}},
		"c-m-2": {ObjectMeta: metav1.ObjectMeta{Name: "c-m-2"}},
		"c-m-3": {ObjectMeta: metav1.ObjectMeta{Name: "c-m-3", DeletionTimestamp: &gone}},
	}
	later, earlier := noon.Add(time.Minute).Format(time.RFC3339), noon.Format(time.RFC3339)
	for _, secret := range []*corev1.Secret{
		crt("c-m-1", "system", registration.ForAgent, "token", "agent-now", "previousToken", "agent-before",
			"gracePeriodExpiresAt", later),
		crt("c-m-1", "default-token", registration.ForNode, "token", "node-now", "previousToken", "node-before",
			"gracePeriodExpiresAt", earlier),
		crt("c-m-1", "mine", registration.Any, "token", "all", "previousToken", "undated"),
		crt("c-m-1", "odd", "agnet", "token", "odd"),
		crt("c-m-2", "default-token", registration.ForAgent, "token", "second", "expiresAt", earlier),
		crt("c-m-3", "default-token", registration.ForAgent, "token", "going"),
		crt("team-a", "default-token", registration.Any, "token", "no-cluster"),
		crt("c-m-1", "copied", registration.ForAgent, "token", "twice"),
		crt("c-m-2", "copied", registration.ForAgent, "token", "twice"),
		{ObjectMeta: metav1.ObjectMeta{Namespace: "c-m-1", Name: "token-of-another-kind"},
			Data: map[string][]byte{"token": []byte("other")}},
	} {
		w.add(w.secrets, secret)
	}
	return clusters
}

func TestRegistrations_Lookup(t *testing.T) {
	w := newWorld(t)
	clusters := w.withRegistrations()
	registrations := NewRegistrations(RegistrationOptions{Secrets: w.options.SecretCache, Clusters: clusters,
		Now: w.options.Now, Log: w.options.Log})
	for token, want := range map[string]struct{ agent, node string }{
		"agent-now":             {"c-m-1", ""},
		"agent-before":          {"c-m-1", ""},
		"node-now":              {"", "c-m-1"},
		"node-before":           {}, // after its grace period
		"all":                   {"c-m-1", "c-m-1"},
		"undated":               {},
		"odd":                   {},
		"second":                {"c-m-2", ""}, // valid until it is replaced
		"going":                 {},
		"no-cluster":            {},
		"twice":                 {},
		"other":                 {},
		"":                      {},
		"unknown":               {},
		proofToken("agent-now"): {}, // a digest grants nothing
	} {
		for purpose, cluster := range map[registration.Purpose]string{registration.ForAgent: want.agent,
			registration.ForNode: want.node} {
			if got, ok := registrations.Lookup(token, purpose); got != cluster || ok != (cluster != "") {
				t.Errorf("%q for %s: %q, %v, want %q", token, purpose, got, ok, cluster)
			}
		}
	}
	w.add(w.secrets, crt("c-m-1", "system", registration.ForAgent, "token", "agent-next"))
	if _, ok := registrations.Lookup("agent-now", registration.ForAgent); ok {
		t.Error("a deleted token is accepted")
	}
	if got, _ := registrations.Lookup("agent-next", registration.ForAgent); got != "c-m-1" {
		t.Error("the index is stale")
	}
	if strings.Contains(w.log.String(), "twice") || !strings.Contains(w.log.String(), "same registration token") {
		t.Errorf("log %s", w.log)
	}
}

func TestImport(t *testing.T) {
	w := newWorld(t)
	clusters := w.withRegistrations()
	w.options.Registrations = NewRegistrations(RegistrationOptions{Secrets: w.options.SecretCache, Clusters: clusters,
		Now: w.options.Now, Log: w.options.Log})
	w.options.Agent = &AgentManifests{Clusters: clusters, Source: clustermanifest.Source{Image: "drover-io/drover:v1"}}
	server, client := w.serve()
	const (
		format  = "invalid filename format, expected {token}_{clusterId}.yaml"
		invalid = "cluster not found or invalid token"
	)
	manifest := func(token string) string {
		in := clustermanifest.For(clusters["c-m-1"], "drover-io/drover:v1", "")
		in.ServerURL, in.CAChecksum, in.Token = "https://drover.example.com",
			naming.CAChecksum(string(w.options.CACerts)), token
		objects, err := clustermanifest.Render(in)
		if err != nil {
			t.Fatal(err)
		}
		text, err := clustermanifest.YAML(objects)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for target, want := range map[string]struct {
		status int
		body   string
	}{
		"agent-now_c-m-1.yaml":                       {200, manifest("agent-now")},
		"agent-before_c-m-1.yaml":                    {200, manifest("agent-before")},
		"all_c-m-1.yaml?authImage=rancher/auth:v0.2": {200, manifest("all")},
		"all_c-m-1.yaml?authImage=a%20b": {400,
			"invalid authImage - it must name an image, such as registry.example.com/rancher/kube-api-auth:v0.2.4"},
		"unknown_c-m-1.yaml?authImage=a%20b": {400, invalid},
		"node-now_c-m-1.yaml":                {400, invalid},
		"agent-now_c-m-2.yaml":               {400, invalid},
		"going_c-m-3.yaml":                   {400, invalid},
		"unknown_c-m-1.yaml":                 {400, invalid},
		"unknown_c-m-9.yaml":                 {400, invalid},
		"_c-m-1.yaml":                        {400, format},
		"agent-now_.yaml":                    {400, format},
		"agent-now_C-M-1.yaml":               {400, format},
		"agent-now.yaml":                     {404, "404 page not found\n"},
		"agent-now_c-m-1":                    {404, "404 page not found\n"},
		"":                                   {404, "404 page not found\n"},
		"x/agent-now_c-m-1.yaml":             {404, "404 page not found\n"},
		"agent%2dnow_c-m-1.yaml":             {404, "404 page not found\n"},
	} {
		t.Run(target, func(t *testing.T) {
			got, body := ask(t, server, client, http.MethodGet, importPrefix+target, nil)
			if got.StatusCode != want.status || body != want.body {
				t.Errorf("status %d, body %q", got.StatusCode, body)
			}
			if kind := got.Header.Get("Content-Type"); kind != "text/plain; charset=utf-8" {
				t.Errorf("content type %q", kind)
			}
			if want.status == 200 && got.Header.Get("Cache-Control") != "no-store" {
				t.Error("a proxy may cache the token")
			}
		})
	}
	if got, _ := ask(t, server, client, http.MethodPost, importPrefix+"agent-now_c-m-1.yaml",
		nil); got.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: status %d", got.StatusCode)
	}
	if len(w.reached()) > 0 {
		t.Error("a token reached the API server")
	}
	for _, token := range []string{"agent-now", "agent-before", "node-now"} {
		if strings.Contains(w.log.String(), token) {
			t.Errorf("token %s is in the log", token)
		}
	}
}

// While caches are not filled, clients are told to retry, not that their token is invalid.
func TestImport_NotYet(t *testing.T) {
	w := newWorld(t)
	synced := false
	w.options.Synced = func() bool { return synced }
	w.options.Agent = &AgentManifests{Clusters: management{},
		Source: clustermanifest.Source{Image: "drover-io/drover:v1"}}
	server, client := w.serve()
	if got, _ := ask(t, server, client, http.MethodGet, importPrefix+"a_c-m-1.yaml",
		nil); got.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("status %d", got.StatusCode)
	}
	synced = true
	if got, _ := ask(t, server, client, http.MethodGet, importPrefix+"a_c-m-1.yaml",
		nil); got.StatusCode != http.StatusBadRequest {
		t.Errorf("status %d", got.StatusCode)
	}
	if len(w.reached()) > 0 {
		t.Error("a token reached the API server")
	}
}

func TestImport_NotServed(t *testing.T) {
	w := newWorld(t)
	server, client := w.serve()
	if got, _ := ask(t, server, client, http.MethodGet, importPrefix+"a_c-m-1.yaml",
		nil); got.StatusCode != http.StatusNotFound || len(w.reached()) > 0 {
		t.Errorf("status %d", got.StatusCode)
	}
}

// failing is a cache that fails.
type failing struct{ management } //nolint:unused // the other methods

func (failing) Get(string) (*mgmtv3.Cluster, error) { return nil, errors.New("hunter2") }

func TestImport_FailsWithoutDetails(t *testing.T) {
	w := newWorld(t)
	clusters := w.withRegistrations()
	w.options.Registrations = NewRegistrations(RegistrationOptions{Secrets: w.options.SecretCache, Clusters: clusters,
		Now: w.options.Now, Log: w.options.Log})
	w.options.Agent = &AgentManifests{Clusters: failing{}, Source: clustermanifest.Source{Image: "drover-io/drover:v1"}}
	server, client := w.serve()
	got, body := ask(t, server, client, http.MethodGet, importPrefix+"agent-now_c-m-1.yaml", nil)
	if got.StatusCode != http.StatusInternalServerError || strings.Contains(body, "hunter2") {
		t.Errorf("status %d, body %q", got.StatusCode, body)
	}
	if log := w.log.String(); !strings.Contains(log, "hunter2") || strings.Contains(log, "agent-now") {
		t.Errorf("log %s", log)
	}
}

// The registry credential of the installation goes only to clusters that use its images.
func TestImport_PullSecrets(t *testing.T) {
	w := newWorld(t)
	clusters := w.withRegistrations()
	key := func(name string) types.NamespacedName {
		return types.NamespacedName{Namespace: "drover-system", Name: name}
	}
	for name, kind := range map[string]corev1.SecretType{"pull": corev1.SecretTypeDockerConfigJson,
		"odd": corev1.SecretTypeOpaque} {
		w.add(w.secrets, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "drover-system", Name: name}, Type: kind,
			Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{}}`)},
		})
	}
	w.options.Registrations = NewRegistrations(RegistrationOptions{Secrets: w.options.SecretCache, Clusters: clusters,
		Now: w.options.Now, Log: w.options.Log})
	w.options.Agent = &AgentManifests{
		Clusters: clusters, Source: clustermanifest.Source{
			Image: "drover-io/drover:v1", Registry: "r.example.com",
			PullSecrets: []types.NamespacedName{key("gone"), key("odd"), key("pull")},
		},
	}
	server, client := w.serve()
	for registry, want := range map[string]struct {
		image string
		pull  int
	}{
		"":                {"image: r.example.com/drover-io/drover:v1", 1},
		"r.example.com":   {"image: r.example.com/drover-io/drover:v1", 1},
		"own.example.com": {"image: own.example.com/drover-io/drover:v1", 0},
	} {
		clusters["c-m-1"].Spec.ClusterSecrets.PrivateRegistryURL = registry
		got, body := ask(t, server, client, http.MethodGet, importPrefix+"agent-now_c-m-1.yaml", nil)
		if got.StatusCode != http.StatusOK || !strings.Contains(body, want.image+"\n") ||
			strings.Count(body, "type: kubernetes.io/dockerconfigjson") != want.pull {
			t.Errorf("registry %q: status %d, body\n%s", registry, got.StatusCode, body)
		}
	}
}

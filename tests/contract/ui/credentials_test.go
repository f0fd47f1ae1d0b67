package ui

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/tests/contract/plane"
)

// values are the secrets of the credential in this test, before and after its replacement.
var values = []string{"hunter2-the-first-value", "hunter2-the-second-value"}

// record is what a program writes. Several goroutines may use it.
type record struct {
	mu   sync.Mutex
	text strings.Builder
}

func (r *record) Write(data []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(data)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// script sends requests with a token instead of a session.
type script struct {
	*testing.T
	w     *world
	token string
	// seen are all answers.
	seen record
}

func (s *script) request(method, path string, body any) *http.Response {
	s.Helper()
	data, err := json.Marshal(body)
	check(s.T, err)
	r, err := http.NewRequestWithContext(s.Context(), method, s.w.server.URL+"/ui/api/v1/"+path,
		strings.NewReader(string(data)))
	check(s.T, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+s.token)
	answer, err := s.w.server.Client().Do(r)
	check(s.T, err)
	return answer
}

// send returns the answer to a request with a code.
func (s *script) send(method, path string, body any, code int) string {
	s.Helper()
	answer := s.request(method, path, body)
	defer answer.Body.Close()
	data, err := io.ReadAll(io.TeeReader(answer.Body, &s.seen))
	check(s.T, err)
	if answer.StatusCode != code {
		s.Errorf("%s %s: %d %s, want %d", method, path, answer.StatusCode, data, code)
	}
	return string(data)
}

// keeper lets the tenant write the credentials of its namespace, and read the schemas of drivers.
func (w *world) keeper(t *testing.T) {
	t.Helper()
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: w.own, Name: "tenant"}}
	name := "credentials-" + w.own
	schemas := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"management.cattle.io"}, Resources: []string{"dynamicschemas"}, Verbs: []string{"get"}}}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}}
	schema := &mgmtv3.DynamicSchema{ObjectMeta: metav1.ObjectMeta{Name: "contractcredentialconfig"},
		Spec: mgmtv3.DynamicSchemaSpec{ResourceFields: map[string]mgmtv3.Field{
			"account": {Type: "string"}, "key": {Type: "password", Required: true}}}}
	for _, object := range []client.Object{schemas, binding, schema,
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: w.own, Name: "keeper"}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create", "update"}}}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: w.own, Name: "keeper"}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "keeper"}},
	} {
		check(t, w.Create(t.Context(), object))
		t.Cleanup(func() { _ = w.Delete(t.Context(), object) })
	}
}

// follow collects the stream of the tenant's namespace.
func (s *script) follow() *record {
	s.Helper()
	out, ended := &record{}, make(chan struct{})
	stream := s.request(http.MethodGet, "stream?namespaces="+s.w.own, nil)
	s.Cleanup(func() { _ = stream.Body.Close() })
	go func() {
		defer close(ended)
		_, _ = io.Copy(out, stream.Body) // it ends with the context of the test, before the cleanups
	}()
	s.Cleanup(func() { <-ended })
	return out
}

// TestUICredentials creates and replaces a credential. Its values reach the Secret, and neither an answer, nor the
// stream, nor an Event, nor the log.
func TestUICredentials(t *testing.T) {
	w := newWorld(t)
	log := &record{}
	logrus.SetOutput(log)
	t.Cleanup(func() { logrus.SetOutput(os.Stderr) })
	s := &script{T: t, w: w, token: w.tenant(t)}
	path := "namespaces/" + w.own + "/credentials"
	request := map[string]any{"displayName": "ours", "driver": "contract",
		"values": map[string]string{"key": values[0]}}
	s.send(http.MethodPost, path, request, http.StatusForbidden)
	w.keeper(t)
	plane.Until(t, time.Minute, func() string { // the API server learns of new rights after a moment
		answer := s.request(http.MethodGet, "k8s/apis/management.cattle.io/v3/dynamicschemas/contractcredentialconfig",
			nil)
		defer answer.Body.Close()
		return strings.TrimPrefix(answer.Status, "200 OK")
	})
	stream := s.follow()
	request["values"] = map[string]string{"kee": values[0]}
	for _, part := range []string{`"reason":"Invalid"`, `"field":"values.kee"`, `"field":"values.key"`} {
		if got := s.send(http.MethodPost, path, request, http.StatusUnprocessableEntity); !strings.Contains(got, part) {
			t.Errorf("no %s in %s", part, got)
		}
	}
	request["values"] = map[string]string{"key": values[0]}
	var made struct{ Namespace, Name string }
	check(t, json.Unmarshal([]byte(s.send(http.MethodPost, path, request, http.StatusCreated)), &made))
	request["name"] = made.Name
	s.send(http.MethodPost, path, request, http.StatusConflict)
	replacement := map[string]any{"values": map[string]string{"key": values[1], "account": "me"}}
	s.send(http.MethodPut, path+"/"+made.Name, replacement, http.StatusOK)
	s.send(http.MethodPut, path+"/"+made.Name, map[string]any{"values": map[string]string{"account": values[1]}},
		http.StatusUnprocessableEntity)
	s.send(http.MethodPut, path+"/absent", replacement, http.StatusNotFound)

	secret := &corev1.Secret{}
	check(t, w.Get(t.Context(), client.ObjectKey{Namespace: w.own, Name: made.Name}, secret))
	if secret.Type != provv1.SecretTypeCloudCredential || len(secret.Data) != 2 ||
		string(secret.Data["contractcredentialConfig-key"]) != values[1] ||
		secret.Annotations["field.cattle.io/name"] != "ours" {
		t.Errorf("Secret %s of type %s has %d values and annotations %v", secret.Name, secret.Type, len(secret.Data),
			secret.Annotations)
	}
	s.send(http.MethodGet, "k8s/api/v1/namespaces/"+w.own+"/secrets/"+made.Name, nil, http.StatusOK)
	s.send(http.MethodGet, "administration", nil, http.StatusOK)
	w.cluster(t, w.own, "last")
	plane.Until(t, time.Minute, func() string {
		if text := stream.String(); !strings.Contains(text, `"name":"last"`) {
			return "the stream has " + text
		}
		return ""
	})
	events := &corev1.EventList{}
	check(t, w.List(t.Context(), events, client.InNamespace(w.own)))
	said, err := json.Marshal(events)
	check(t, err)
	for where, text := range map[string]string{"an answer": s.seen.String(), "the stream": stream.String(),
		"an Event": string(said), "the log": log.String()} {
		for _, value := range values {
			if strings.Contains(text, value) {
				t.Errorf("%s shows a value: %s", where, text)
			}
		}
	}
}

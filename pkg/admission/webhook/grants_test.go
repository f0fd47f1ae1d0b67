package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch"
	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/pkg/admission/webhook"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/tenancy"
	"github.com/drover-io/drover/pkg/testkit/build"
)

var (
	key = bytes.Repeat([]byte{7}, tenancy.KeySize)
	now = time.Date(2026, 11, 23, 12, 30, 0, 0, time.UTC)
)

// secrets maps Secrets to the clusters that they offer themselves to.
type secrets map[string]string

func (s secrets) Get(namespace, name string) (*corev1.Secret, error) {
	offer, ok := s[namespace+"/"+name]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{rkev1.AuthorizedObjectAnnotation: offer}}}, nil
}

func handler(t *testing.T, synced bool) http.Handler {
	t.Helper()
	log := logrus.New()
	log.SetOutput(t.Output())
	return webhook.New(webhook.Options{
		InstanceID: "ours", Now: func() time.Time {
			return now
		}, Synced: func() bool { return synced }, Key: func() []byte { return key }, Log: log,
		Secrets: secrets{"cattle-global-data/offered": build.Namespace + "/*"},
		Review: func(_ context.Context, author tenancy.Author, secret types.NamespacedName) (bool, error) {
			if secret.Name == "unknown" {
				return false, errors.New("the API server does not answer")
			}
			return author.Username == "admin" || author.Username == "alice" && secret.Name == "hers", nil
		},
		Trust: func(_ context.Context, who tenancy.Author) (bool, error) {
			if who.Username == "unknown" {
				return false, errors.New("the API server does not answer")
			}
			return who.Username == "admin" || who.Username == "mover", nil
		},
	})
}

// wanting returns a cluster with this credential.
func wanting(credential string, edits ...func(*provv1.Cluster)) *provv1.Cluster {
	cluster := build.Cluster("demo", build.Pool("a", "ecw", 1))
	cluster.Spec.CloudCredentialSecretName = credential
	for _, edit := range edits {
		edit(cluster)
	}
	return cluster
}

func granted(t *testing.T, credential, user string, edits ...func(*provv1.Cluster)) *provv1.Cluster {
	t.Helper()
	cluster := wanting(credential)
	text, err := tenancy.WriteGrants(nil, cluster, tenancy.Author{Username: user}, tenancy.References(cluster), key)
	if err != nil {
		t.Fatal(err)
	}
	return wanting(credential, append([]func(*provv1.Cluster){annotated(tenancy.GrantsAnnotation, text)}, edits...)...)
}

func annotated(annotation, value string) func(*provv1.Cluster) {
	return func(c *provv1.Cluster) { metav1.SetMetaDataAnnotation(&c.ObjectMeta, annotation, value) }
}

func finalized(c *provv1.Cluster) { c.Finalizers = []string{"theirs"} }

func deleted(c *provv1.Cluster) { c.DeletionTimestamp = new(metav1.Now()) }

// outcome is the result of a request: refused, or stored.
type outcome struct {
	refused, warned string
	stored          *provv1.Cluster
}

// ask has a user write a cluster.
func ask(t *testing.T, user string, before, after *provv1.Cluster) outcome {
	t.Helper()
	request := &admissionv1.AdmissionRequest{
		UID: "1", Namespace: after.Namespace, Name: after.Name, Operation: admissionv1.Create,
		Resource: metav1.GroupVersionResource{Group: "provisioning.cattle.io", Version: "v1", Resource: "clusters"},
		UserInfo: authenticationv1.UserInfo{Username: user, Extra: map[string]authenticationv1.ExtraValue{
			"authentication.kubernetes.io/credential-id": {"JTI=1"}, "example.com/tenant": {"a"},
		}},
		Object: raw(t, after),
	}
	if before != nil {
		request.Operation, request.OldObject = admissionv1.Update, raw(t, before)
	}
	return review(t, request)
}

func review(t *testing.T, request *admissionv1.AdmissionRequest) outcome {
	t.Helper()
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: request,
	})
	if err != nil {
		t.Fatal(err)
	}
	got := post(t, handler(t, true), webhook.GrantsPath+webhook.Word(key, now), body)
	var answer admissionv1.AdmissionReview
	if err := json.Unmarshal(got.Body.Bytes(), &answer); err != nil || got.Code != http.StatusOK {
		t.Fatalf("%d %s: %v", got.Code, got.Body, err)
	}
	warned := strings.Join(answer.Response.Warnings, "; ")
	if !answer.Response.Allowed {
		return outcome{refused: answer.Response.Result.Message, warned: warned}
	}
	text := request.Object.Raw
	if len(answer.Response.Patch) > 0 {
		patch, err := jsonpatch.DecodePatch(answer.Response.Patch)
		if err != nil {
			t.Fatal(err)
		}
		if text, err = patch.Apply(text); err != nil {
			t.Fatal(err)
		}
	}
	stored := &metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(text, stored); err != nil {
		t.Fatal(err)
	}
	cluster := &provv1.Cluster{ObjectMeta: stored.ObjectMeta}
	var wanted struct{ Spec provv1.ClusterSpec }
	if json.Unmarshal(text, &wanted) == nil {
		cluster.Spec = wanted.Spec
	}
	return outcome{warned: warned, stored: cluster}
}

func raw(t *testing.T, cluster *provv1.Cluster) runtime.RawExtension {
	t.Helper()
	text, err := json.Marshal(cluster)
	if err != nil {
		t.Fatal(err)
	}
	return runtime.RawExtension{Raw: text}
}

func post(t *testing.T, handler http.Handler, path string, body []byte) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, bytes.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	return recorder
}

func TestGrants_FollowTheRightsOfTheUser(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		user          string
		before, after *provv1.Cluster
		wantRefused   string
		wantWarned    string
		wantAuthor    string
	}{
		"a reference that its author may get": {user: "alice", after: wanting("cattle-global-data:hers"),
			wantAuthor: "alice"},
		"a reference that its author may not get": {
			user: "alice", after: wanting("cattle-global-data:bobs"),
			wantRefused: "spec.cloudCredentialSecretName: alice may not get Secret cattle-global-data/bobs",
		},
		"a reference that its Secret offers":     {user: "alice", after: wanting("cattle-global-data:offered")},
		"a reference to the cluster's namespace": {user: "alice", after: wanting("mine")},
		"another edit by a user without the right": {
			user: "bob", before: granted(t, "cattle-global-data:hers", "alice"),
			after: granted(t, "cattle-global-data:hers", "alice"), wantAuthor: "alice",
		},
		"another edit by an administrator": {
			user: "admin", before: wanting("cattle-global-data:hers"), after: wanting("cattle-global-data:hers"),
		},
		"another reference": {
			user: "bob", before: granted(t, "cattle-global-data:hers", "alice"),
			after: wanting("cattle-global-data:other"), wantRefused: "bob may not get",
		},
		"the annotation is removed": {
			user: "bob", before: granted(t, "cattle-global-data:hers", "alice"),
			after: wanting("cattle-global-data:hers"), wantAuthor: "alice",
		},
		"the request contains the annotation": {user: "alice", before: wanting("cattle-global-data:hers"),
			after: granted(t, "cattle-global-data:hers", "admin")},
		"a cluster of another manager": {
			user: "bob", after: wanting("cattle-global-data:hers", annotated(rkev1.InstanceAnnotation, "theirs")),
		},
		"our cluster, marked": {
			user: "bob", after: wanting("cattle-global-data:hers", annotated(rkev1.InstanceAnnotation, "ours")),
			wantRefused: "bob may not get",
		},
		"a cluster that is deleted": {
			user: "bob", before: wanting("x"), after: wanting("cattle-global-data:hers", deleted),
		},
		"a cluster of Rancher": {user: "bob", before: wanting("x", finalized),
			after: wanting("cattle-global-data:hers", finalized)},
		"the right of its author is unknown": {
			user: "alice", after: wanting("cattle-global-data:unknown"),
			wantWarned: ", so it does not use the Secret yet: set annotation",
		},
		"a generated name": {
			user: "alice", after: wanting("cattle-global-data:hers", func(c *provv1.Cluster) {
				c.Name, c.GenerateName = "", "demo-"
			}),
			wantRefused: "needs the name",
		},
		"a generated name, and an offer": {
			user: "alice", after: wanting("cattle-global-data:offered", func(c *provv1.Cluster) {
				c.Name, c.GenerateName = "", "demo-"
			}),
		},
		"old grants for a new reference": {
			user: "bob", before: wanting("x"), after: granted(t, "cattle-global-data:hers", "alice"),
			wantRefused: "bob may not get",
		},
		"old grants while the cluster is given away": {
			user: "bob", before: wanting("x", annotated(rkev1.InstanceAnnotation, "ours")),
			after: granted(t, "cattle-global-data:hers", "alice", annotated(rkev1.InstanceAnnotation, "x")),
		},
		"old grants while the cluster is deleted": {user: "bob", before: wanting("x"),
			after: granted(t, "cattle-global-data:hers", "alice", deleted)},
		"the cluster is adopted again": {
			user: "bob", before: wanting("cattle-global-data:hers", annotated(rkev1.InstanceAnnotation, "x")),
			after: granted(t, "cattle-global-data:hers", "alice", annotated(rkev1.InstanceAnnotation, "ours")),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ask(t, tc.user, tc.before, tc.after)
			got.check(t, tc.wantRefused, tc.wantWarned, tc.wantAuthor)
		})
	}
}

func (o outcome) check(t *testing.T, refused, warned, author string) {
	t.Helper()
	if (o.refused == "") != (refused == "") || !strings.Contains(o.refused, refused) {
		t.Fatalf("refused: %q", o.refused)
	}
	if (o.warned == "") != (warned == "") || !strings.Contains(o.warned, warned) {
		t.Errorf("warned: %q", o.warned)
	}
	if o.stored == nil {
		return
	}
	got := ""
	for _, who := range tenancy.Grants(o.stored, key) {
		got = who.Username
	}
	if got != author {
		t.Errorf("granted to %q, want %q: %v", got, author, o.stored.Annotations)
	}
	if text := o.stored.Annotations[tenancy.GrantsAnnotation]; author == "" && text != "" {
		t.Errorf("the annotation is %q", text)
	}
}

// Only the user who asks for a renewal becomes the author of references without a valid grant.
func TestGrants_AreRenewedForTheRequestingUser(t *testing.T) {
	t.Parallel()
	renew, ours := annotated(tenancy.GrantsAnnotation, tenancy.Renew), annotated(rkev1.InstanceAnnotation, "ours")
	for name, tc := range map[string]struct {
		user          string
		before, after *provv1.Cluster
		wantWarned    string
		wantAuthor    string
	}{
		"no author": {user: "alice", before: wanting("cattle-global-data:hers"),
			after: wanting("cattle-global-data:hers", renew), wantAuthor: "alice"},
		"the author lost the right": {
			user: "admin", before: granted(t, "cattle-global-data:hers", "bob"),
			after: wanting("cattle-global-data:hers", renew), wantAuthor: "admin",
		},
		"the author still has the right": {
			user: "admin", before: granted(t, "cattle-global-data:hers", "alice"),
			after: wanting("cattle-global-data:hers", renew), wantAuthor: "alice",
		},
		"the requesting user has no right": {
			user: "bob", before: wanting("cattle-global-data:hers"), after: wanting("cattle-global-data:hers", renew),
			wantWarned: "spec.cloudCredentialSecretName: bob may not get Secret cattle-global-data/hers, so Drover " +
				"does not grant it",
		},
		"the Secret offers it": {user: "bob", before: wanting("cattle-global-data:offered"),
			after: wanting("cattle-global-data:offered", renew)},
		"unknown": {
			user: "alice", before: wanting("cattle-global-data:unknown"),
			after: wanting("cattle-global-data:unknown", renew), wantWarned: "try again",
		},
		"another user edits a Cluster with the request": {
			user: "admin", before: wanting("cattle-global-data:hers", renew),
			after: wanting("cattle-global-data:hers", renew), wantWarned: "set it again",
		},
		"with the mark of an adoption": {
			user: "alice", before: wanting("cattle-global-data:hers", finalized),
			after: wanting("cattle-global-data:hers", finalized, ours, renew), wantAuthor: "alice",
		},
		"a cluster of another manager": {
			user: "alice", before: wanting("cattle-global-data:hers", finalized),
			after:      wanting("cattle-global-data:hers", finalized, renew),
			wantWarned: "this Drover does not manage the Cluster",
		},
		"of a new cluster": {user: "alice", after: wanting("cattle-global-data:hers", renew), wantAuthor: "alice"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ask(t, tc.user, tc.before, tc.after)
			got.check(t, "", tc.wantWarned, tc.wantAuthor)
			if got.stored != nil && tc.before != nil { // as if another webhook had changed something
				got.stored.Labels = map[string]string{"of": "another"}
				ask(t, tc.user, tc.before, got.stored).check(t, "", "", tc.wantAuthor)
			}
		})
	}
}

func TestGrants_KeepTheAuthor(t *testing.T) {
	t.Parallel()
	got := ask(t, "alice", nil, wanting("cattle-global-data:hers"))
	for _, author := range tenancy.Grants(got.stored, key) {
		if diff := cmp.Diff(tenancy.Author{Username: "alice", Extra: map[string][]string{"example.com/tenant": {"a"}}},
			author); diff != "" {
			t.Errorf("the author (-want +got):\n%s", diff)
		}
	}
}

// The schema, which is validated later, reports mistakes in a manifest. A change that cannot be read grants nothing.
func TestGrants_LeaveUnreadableObjectsToTheSchema(t *testing.T) {
	t.Parallel()
	asked := func(object, old string) *admissionv1.AdmissionRequest {
		request := &admissionv1.AdmissionRequest{
			UID: "1", Namespace: "ns", Name: "demo", Operation: admissionv1.Update,
			Resource: metav1.GroupVersionResource{Group: "provisioning.cattle.io", Version: "v1", Resource: "clusters"},
			UserInfo: authenticationv1.UserInfo{Username: "alice"}, Object: runtime.RawExtension{Raw: []byte(object)},
			OldObject: runtime.RawExtension{Raw: []byte(old)},
		}
		return request
	}
	const wrong = `{"metadata":{"name":"demo","annotations":{"drover.io/granted-references":"[]"}},"spec":{"rkeConfig":{"machinePools":[{"quantity":"x"}]}}}`
	for _, old := range []string{wrong, `{"metadata":{"name":"demo"},"spec":{}}`} {
		review(t, asked(wrong, old)).check(t, "", "", "")
	}
	hers := `{"metadata":{"name":"demo"},"spec":{"cloudCredentialSecretName":"cattle-global-data:hers","rkeConfig":{}}}`
	review(t, asked(hers, wrong)).check(t, "", "", "") // the user who corrects it wrote no reference
}

// Only callers that know the word get an answer, because it is a signature for the user in the request. An old word is
// invalid, except for some minutes around the hour, when both are valid.
func TestGrants_RequireThePathWord(t *testing.T) {
	t.Parallel()
	word := func(key []byte, ago time.Duration) string { return webhook.Word(key, now.Add(-ago)) }
	for path, want := range map[string]int{
		"": http.StatusNotFound, "x": http.StatusNotFound,
		word(bytes.Repeat([]byte{8}, tenancy.KeySize), 0): http.StatusNotFound,
		word(key, 0):          http.StatusOK,
		word(key, time.Hour):  http.StatusNotFound,
		word(key, -time.Hour): http.StatusNotFound,
	} {
		if got := post(t, handler(t, true), webhook.GrantsPath+path, nil); got.Code != want {
			t.Errorf("%s: %d, want %d", path, got.Code, want)
		}
	}
	if got := post(t, handler(t, false), webhook.GrantsPath+word(nil, 0),
		nil); got.Code != http.StatusServiceUnavailable {
		t.Errorf("before there is a key: %d", got.Code)
	}
}

func TestGrants_AcceptTheWordsOfAdjacentHours(t *testing.T) {
	t.Parallel()
	hour := now.Truncate(time.Hour)
	for minutes, want := range map[time.Duration]int{-11: http.StatusNotFound, -9: http.StatusOK, 0: http.StatusOK,
		69: http.StatusOK, 71: http.StatusNotFound} {
		handler := webhook.New(webhook.Options{
			Synced: func() bool { return true }, Key: func() []byte { return key }, Now: func() time.Time {
				return hour.Add(minutes * time.Minute)
			},
		})
		if got := post(t, handler, webhook.GrantsPath+webhook.Word(key, hour), nil); got.Code != want {
			t.Errorf("%d minutes after the hour: %d, want %d", minutes, got.Code, want)
		}
	}
}

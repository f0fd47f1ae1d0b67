package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch"
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
	"github.com/drover-io/drover/pkg/tenancy"
	"github.com/drover-io/drover/pkg/testkit/build"
)

var key = bytes.Repeat([]byte{7}, tenancy.KeySize)

// secrets offer themselves to these clusters.
type secrets map[string]string

func (s secrets) Get(namespace, name string) (*corev1.Secret, error) {
	offer, ok := s[namespace+"/"+name]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
	}
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{rkev1.AuthorizedObjectAnnotation: offer}}}, nil
}

func handler(t *testing.T, synced bool) http.Handler {
	t.Helper()
	log := logrus.New()
	log.SetOutput(t.Output())
	return webhook.New(webhook.Options{
		InstanceID: "ours", Synced: func() bool { return synced }, Key: func() []byte { return key }, Log: log,
		Secrets: secrets{"cattle-global-data/offered": build.Namespace + "/demo"},
		Review: func(_ context.Context, author tenancy.Author, secret types.NamespacedName) (bool, error) {
			return author.Username == "admin" || author.Username == "alice" && secret.Name == "hers", nil
		},
	})
}

// wanting is a cluster with this credential.
func wanting(credential string, edits ...func(*provv1.Cluster)) *provv1.Cluster {
	cluster := build.Cluster("demo", build.Pool("a", "ecw", 1))
	cluster.Spec.CloudCredentialSecretName = credential
	for _, edit := range edits {
		edit(cluster)
	}
	return cluster
}

func granted(t *testing.T, credential, user string) *provv1.Cluster {
	t.Helper()
	cluster := wanting(credential)
	text, err := tenancy.WriteGrants(nil, cluster, tenancy.Author{Username: user}, tenancy.References(cluster), key)
	if err != nil {
		t.Fatal(err)
	}
	cluster.Annotations = map[string]string{tenancy.GrantsAnnotation: text}
	return cluster
}

// ask has a user write a cluster. It returns the refusal, or the cluster as it would be stored.
func ask(t *testing.T, user string, before, after *provv1.Cluster) (refused string, stored *provv1.Cluster) {
	t.Helper()
	request := &admissionv1.AdmissionRequest{
		UID: "1", Namespace: after.Namespace, Name: after.Name, Operation: admissionv1.Create,
		Resource: metav1.GroupVersionResource{Group: "provisioning.cattle.io", Version: "v1", Resource: "clusters"},
		UserInfo: authenticationv1.UserInfo{Username: user}, Object: raw(t, after),
	}
	if before != nil {
		request.Operation, request.OldObject = admissionv1.Update, raw(t, before)
	}
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: request,
	})
	if err != nil {
		t.Fatal(err)
	}
	got := post(t, handler(t, true), webhook.GrantsPath+webhook.Word(key), body)
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(got.Body.Bytes(), &review); err != nil {
		t.Fatalf("%d %s: %v", got.Code, got.Body, err)
	}
	if !review.Response.Allowed {
		return review.Response.Result.Message, nil
	}
	text := request.Object.Raw
	if len(review.Response.Patch) > 0 {
		patch, err := jsonpatch.DecodePatch(review.Response.Patch)
		if err != nil {
			t.Fatal(err)
		}
		if text, err = patch.Apply(text); err != nil {
			t.Fatal(err)
		}
	}
	stored = &provv1.Cluster{}
	if err := json.Unmarshal(text, stored); err != nil {
		t.Fatal(err)
	}
	return "", stored
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

func TestGrants_FollowWhatTheUserMay(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		user          string
		before, after *provv1.Cluster
		wantRefused   string
		wantAuthor    string
	}{
		"a reference that its author may get": {user: "alice", after: wanting("cattle-global-data:hers"), wantAuthor: "alice"},
		"one that she may not": {
			user: "alice", after: wanting("cattle-global-data:bobs"),
			wantRefused: "spec.cloudCredentialSecretName: alice may not get Secret cattle-global-data/bobs",
		},
		"one that offers itself":         {user: "alice", after: wanting("cattle-global-data:offered")},
		"one of the cluster's namespace": {user: "alice", after: wanting("mine")},
		"an edit of something else by somebody who may not": {
			user: "bob", before: granted(t, "cattle-global-data:hers", "alice"), after: granted(t, "cattle-global-data:hers", "alice"), wantAuthor: "alice",
		},
		"an edit of something else by somebody who may all": {
			user: "admin", before: wanting("cattle-global-data:hers"), after: wanting("cattle-global-data:hers"),
		},
		"another reference": {
			user: "bob", before: granted(t, "cattle-global-data:hers", "alice"), after: wanting("cattle-global-data:other"), wantRefused: "bob may not get",
		},
		"the annotation is dropped": {
			user: "bob", before: granted(t, "cattle-global-data:hers", "alice"), after: wanting("cattle-global-data:hers"), wantAuthor: "alice",
		},
		"the annotation is brought along": {user: "alice", before: wanting("cattle-global-data:hers"), after: granted(t, "cattle-global-data:hers", "admin")},
		"somebody else's cluster": {
			user: "bob", after: wanting("cattle-global-data:hers", func(c *provv1.Cluster) { c.Annotations = map[string]string{rkev1.InstanceAnnotation: "theirs"} }),
		},
		"our cluster, marked": {
			user: "bob", after: wanting("cattle-global-data:hers", func(c *provv1.Cluster) { c.Annotations = map[string]string{rkev1.InstanceAnnotation: "ours"} }),
			wantRefused: "bob may not get",
		},
		"a cluster that is deleted": {
			user: "bob", before: wanting("x"), after: wanting("cattle-global-data:hers", func(c *provv1.Cluster) { c.DeletionTimestamp = new(metav1.Now()) }),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused, stored := ask(t, tc.user, tc.before, tc.after)
			if (refused == "") != (tc.wantRefused == "") || !strings.Contains(refused, tc.wantRefused) {
				t.Fatalf("refused: %q", refused)
			}
			if stored == nil {
				return
			}
			author := ""
			for _, who := range tenancy.Grants(stored, key) {
				author = who.Username
			}
			if author != tc.wantAuthor {
				t.Errorf("granted to %q, want %q: %v", author, tc.wantAuthor, stored.Annotations)
			}
		})
	}
}

// Whoever does not know the word gets no answer: it would be a signature in the name of whomever they like.
func TestGrants_AnswerOnlyWhoKnowsTheWord(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]int{
		webhook.GrantsPath: http.StatusNotFound, webhook.GrantsPath + "x": http.StatusNotFound,
		webhook.GrantsPath + webhook.Word(bytes.Repeat([]byte{8}, tenancy.KeySize)): http.StatusNotFound,
		webhook.GrantsPath + webhook.Word(key):                                      http.StatusOK,
	} {
		if got := post(t, handler(t, true), path, nil); got.Code != want {
			t.Errorf("%s: %d, want %d", path, got.Code, want)
		}
	}
	if got := post(t, handler(t, false), webhook.GrantsPath+webhook.Word(nil), nil); got.Code != http.StatusServiceUnavailable {
		t.Errorf("before there is a key: %d", got.Code)
	}
}

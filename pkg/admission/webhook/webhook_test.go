package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rancher/wrangler/v3/pkg/generic/fake"
	"github.com/sirupsen/logrus/hooks/test"
	"go.uber.org/mock/gomock"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-io/drover/pkg/admission"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/tenancy"
	"github.com/drover-io/drover/pkg/releases"
	"github.com/drover-io/drover/pkg/testkit/build"
)

// ask posts a review of a Cluster and returns the answer.
func ask(t *testing.T, path string, synced bool, before, after any) *admissionv1.AdmissionResponse {
	t.Helper()
	ctrl := gomock.NewController(t)
	clusters := fake.NewMockCacheInterface[*provv1.Cluster](ctrl)
	machines := fake.NewMockCacheInterface[*clusterv1.Machine](ctrl)
	if synced {
		clusters.EXPECT().List("", gomock.Any()).Return(nil, nil)
		machines.EXPECT().List("", gomock.Any()).Return([]*clusterv1.Machine{build.Machine("demo", "registered", "ec")},
			nil)
	}
	table, err := releases.Embedded()
	check(t, err)
	log, _ := test.NewNullLogger()
	handler := New(Options{InstanceID: "this", Releases: table, Clusters: clusters, Machines: machines,
		Synced: func() bool { return synced }, Log: log})
	review := admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "one", Operation: admissionv1.Create, Namespace: build.Namespace, Name: "demo",
			Kind:     metav1.GroupVersionKind{Group: "provisioning.cattle.io", Version: "v1", Kind: "Cluster"},
			Resource: metav1.GroupVersionResource{Group: "provisioning.cattle.io", Version: "v1", Resource: "clusters"},
			Object:   raw(t, after),
		},
	}
	if before != nil {
		review.Request.Operation, review.Request.OldObject = admissionv1.Update, raw(t, before)
	}
	body, err := json.Marshal(review)
	check(t, err)
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		return &admissionv1.AdmissionResponse{Result: &metav1.Status{Code: int32(w.Code)}}
	}
	var answer admissionv1.AdmissionReview
	check(t, json.Unmarshal(w.Body.Bytes(), &answer))
	if answer.Response == nil || answer.Response.UID != "one" {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return answer.Response
}

func raw(t testing.TB, object any) runtime.RawExtension {
	t.Helper()
	data, err := json.Marshal(object)
	check(t, err)
	return runtime.RawExtension{Raw: data}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestValidate_AnswersLikeTheAPIServer(t *testing.T) {
	wrong := build.Cluster("demo", build.Pool("all", "", 1))
	got := ask(t, ValidatePath, true, nil, wrong)
	if got.Allowed || got.Result.Code != http.StatusUnprocessableEntity ||
		got.Result.Reason != metav1.StatusReasonInvalid {
		t.Errorf("answer %+v", got)
	}
	if causes := got.Result.Details.Causes; len(causes) != 1 || causes[0].Field != "spec.rkeConfig.machinePools[0]" {
		t.Errorf("causes %+v", causes)
	}
	if got := ask(t, ValidatePath, true, nil, build.Cluster("demo", build.Pool("all", "ecw", 1))); !got.Allowed {
		t.Errorf("answer %+v", got)
	}
}

// Registered servers are found in a cache. Until it is filled, they may exist.
func TestValidate_ReadsTheCaches(t *testing.T) {
	workers := build.Cluster("demo", build.Pool("all", "w", 1))
	for _, synced := range []bool{true, false} {
		if got := ask(t, ValidatePath, synced, nil, workers); !got.Allowed {
			t.Errorf("caches synced %v: %+v", synced, got.Result)
		}
	}
	other := build.Cluster("other", build.Pool("all", "w", 1))
	if got := ask(t, ValidatePath, true, nil, other); got.Allowed {
		t.Error("servers of another cluster count")
	}
}

func TestMutate_ReturnsAPatch(t *testing.T) {
	before, after := build.Cluster("demo", build.Pool("all", "ecw", 1)),
		build.Cluster("demo", build.Pool("all", "ecw", 2))
	before.Spec.RKEConfig.MachinePools[0].DynamicSchemaSpec = "{}"
	got := ask(t, MutatePath, true, before, after)
	if want := `[{"op":"add","path":"/spec/rkeConfig/machinePools/0/dynamicSchemaSpec","value":"{}"}]`; !got.Allowed ||
		string(got.Patch) != want {
		t.Errorf("answer %+v, patch %s", got, got.Patch)
	}
}

// The API server is asked about trust only for users who bring a released Cluster.
func TestMutate_ChecksTrustInTheUserOfAReleasedCluster(t *testing.T) {
	t.Parallel()
	by := func(creator, released string) *provv1.Cluster {
		cluster := build.Cluster("demo", build.Pool("all", "ecw", 1))
		cluster.Annotations = map[string]string{provv1.CreatorIDAnnotation: creator,
			rkev1.ReleasedByAnnotation: released}
		return cluster
	}
	for name, tc := range map[string]struct {
		cluster *provv1.Cluster
		trusted bool
		err     error
		asked   int
		patches int
		warned  bool
	}{
		"a trusted user":               {by("alice", "first"), true, nil, 1, 0, false},
		"an untrusted user":            {by("alice", "first"), false, nil, 1, 1, false},
		"a user who cannot be checked": {by("alice", "first"), true, errors.New("no answer"), 1, 1, true},
		"the creator of the Cluster":   {by("operator", "first"), true, nil, 0, 0, false},
		"the creator of a new Cluster": {by("alice", ""), true, nil, 0, 1, false},
	} {
		log, _ := test.NewNullLogger()
		asked := 0
		r := &reviewer{Options{InstanceID: "this", Log: log, Synced: func() bool { return false },
			Trust: func(_ context.Context, who tenancy.Author) (bool, error) {
				asked++
				if diff := cmp.Diff(tenancy.Author{Username: "operator", Groups: []string{"team"}}, who); diff != "" {
					t.Errorf("%s: %s", name, diff)
				}
				return tc.trusted, tc.err
			}}}
		answer, err := r.review(t.Context(), decision{admission.Complete, admission.TrustMatters},
			admissionv1.AdmissionRequest{
				Operation: admissionv1.Create, Namespace: build.Namespace, Name: "demo", Object: raw(t, tc.cluster),
				Resource: metav1.GroupVersionResource{Group: "provisioning.cattle.io", Version: "v1",
					Resource: "clusters"},
				UserInfo: authenticationv1.UserInfo{Username: "operator", Groups: []string{"team"}},
			})
		check(t, err)
		if asked != tc.asked || len(answer.Patches) != tc.patches || (len(answer.Warnings) > 0) != tc.warned {
			t.Errorf("%s: %d reviews, answer %+v", name, asked, answer)
		}
	}
}

// An unreadable object causes an error instead of a refusal, so that the failure policy applies.
func TestValidate_FailsOnUnreadableObjects(t *testing.T) {
	for _, path := range []string{ValidatePath, MutatePath} {
		if got := ask(t, path, true, build.Cluster("demo"), map[string]any{"spec": "none"}); got.UID != "" ||
			got.Result.Code != http.StatusInternalServerError {
			t.Errorf("%s: answer %+v", path, got)
		}
	}
}

func TestHandler_AcceptsOnlyReviews(t *testing.T) {
	handler := New(Options{})
	for path, want := range map[string]int{ValidatePath: http.StatusMethodNotAllowed, "/admission": http.StatusNotFound,
		"/": http.StatusNotFound} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != want {
			t.Errorf("GET %s: %d, want %d", path, w.Code, want)
		}
	}
}

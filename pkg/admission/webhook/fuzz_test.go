package webhook

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sirupsen/logrus/hooks/test"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-io/drover/pkg/releases"
	"github.com/drover-io/drover/pkg/testkit/allocations"
	"github.com/drover-io/drover/pkg/testkit/build"
)

// unsynced is a handler without caches, which decides on the request alone.
func unsynced(t testing.TB) http.Handler {
	t.Helper()
	table, err := releases.Embedded()
	check(t, err)
	log, _ := test.NewNullLogger()
	return New(Options{InstanceID: "this", Releases: table, Synced: func() bool { return false }, Log: log})
}

// reviewOf is the body of a review of a new Cluster.
func reviewOf(t testing.TB, object []byte) []byte {
	t.Helper()
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "one", Operation: admissionv1.Create, Namespace: build.Namespace, Name: "demo",
			Kind:     metav1.GroupVersionKind{Group: "provisioning.cattle.io", Version: "v1", Kind: "Cluster"},
			Resource: metav1.GroupVersionResource{Group: "provisioning.cattle.io", Version: "v1", Resource: "clusters"},
			Object:   runtime.RawExtension{Raw: object},
		},
	})
	check(t, err)
	return body
}

// A review may allocate base and perByte bytes for each byte of its body. An empty pool has three bytes of text.
const (
	base    = 8 << 20
	perByte = 2048
)

// FuzzReview: any body gets an answer, and the memory is bounded by the length of the body.
func FuzzReview(f *testing.F) {
	cluster, err := json.Marshal(build.Cluster("demo", build.Pool("a", "ecw", 1)))
	check(f, err)
	f.Add(reviewOf(f, cluster))
	f.Add(reviewOf(f, manyPools(500)))
	f.Add([]byte(`{"request":{}}`))
	f.Add([]byte(strings.Repeat("[", 1000)))
	f.Add([]byte(nil))
	handler := unsynced(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, path := range []string{ValidatePath, MutatePath} {
			allocations.AtMost(t, base+perByte*uint64(len(body)), func() {
				code := post(handler, path, body).Code
				if code != http.StatusOK && code < http.StatusInternalServerError {
					t.Errorf("%s answers %d", path, code)
				}
			})
		}
	})
}

// manyPools is a Cluster with as many empty pools.
func manyPools(n int) []byte {
	return []byte(`{"metadata":{"namespace":"` + build.Namespace + `","name":"demo"},"spec":{"kubernetesVersion":` +
		`"v1.36.2+k3s1","rkeConfig":{"machinePools":[` + strings.Repeat("{},", n-1) + `{}]}}}`)
}

func post(handler http.Handler, path string, body []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

// A Cluster with as many wrong pools as the API server accepts costs little memory, and its answer is short.
func TestReview_OfManyErrors(t *testing.T) {
	body := reviewOf(t, manyPools(1000))
	handler := unsynced(t)
	var answer string
	allocations.AtMost(t, 32<<20, func() { answer = post(handler, ValidatePath, body).Body.String() })
	if len(answer) > 64<<10 || !strings.Contains(answer, "more errors; correct these first") {
		t.Errorf("%d bytes: %.1000s", len(answer), answer)
	}
}

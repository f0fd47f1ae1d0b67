package connect

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// storedPlan is the plan Secret of machine m, with an earlier report.
func storedPlan() *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: meta("b-machine-plan", "plan-uid"), Type: rkev1.SecretTypeMachinePlan}
	secret.Labels = map[string]string{rkev1.WorkerRoleLabel: "true"}
	secret.Annotations = map[string]string{rkev1.JoinedToAnnotation: "https://198.18.0.5:9345"}
	secret.OwnerReferences = owners("RKEBootstrap", "b", "boot-uid")
	secret.Data = map[string][]byte{
		nodeplan.KeyPlan: []byte("{}"), nodeplan.KeyMaxFailures: []byte("3"), nodeplan.KeyAppliedPlan: []byte("{}"),
		"foreign":                []byte("kept"),
		nodeplan.KeyFailureCount: []byte("1"), nodeplan.KeyProbeStatuses: []byte("{}"),
	}
	return secret
}

// put sends an update and returns the answer with the body that the API server received.
func (w *world) put(t *testing.T, body []byte, contentType string) (answer, []byte) {
	t.Helper()
	server, client := w.serve()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, server.URL+ownSecret, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+planJWT)
	request.Header.Set("Content-Type", contentType)
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	got := answer{StatusCode: response.StatusCode, Header: response.Header}
	if len(w.reached()) == 0 {
		return got, nil
	}
	received, err := io.ReadAll(w.reached()[0].Body)
	if err != nil {
		t.Fatal(err)
	}
	return got, received
}

// update sends an update and returns the answer if it is a Status.
func (w *world) update(server *httptest.Server, client *http.Client, body []byte) (status metav1.Status) {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodPut, server.URL+ownSecret,
		bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+planJWT)
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	_ = json.NewDecoder(response.Body).Decode(&status)
	return status
}

func encodeSecret(t testing.TB, secret *corev1.Secret) []byte {
	t.Helper()
	data, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestReport_CopiesOnlyTheAgentsKeys(t *testing.T) {
	w := newWorld(t)
	w.add(w.secrets, storedPlan())
	sent := storedPlan()
	sent.Labels = map[string]string{rkev1.ControlPlaneRoleLabel: "true", rkev1.InitNodeLabel: "true"}
	sent.Annotations = map[string]string{rkev1.JoinURLAnnotation: "https://attacker:9345"}
	sent.OwnerReferences = nil
	sent.Finalizers = []string{"never-delete-me"}
	sent.StringData = map[string]string{nodeplan.KeyPlan: "evil"}
	sent.Data = map[string][]byte{
		nodeplan.KeyPlan: []byte("evil"), nodeplan.KeyAppliedPlan: []byte("evil"),
		nodeplan.KeyMaxFailures: []byte("-1"), "new": []byte("evil"),
		nodeplan.KeyFailureCount: []byte("0"), nodeplan.KeyAppliedChecksum: []byte("sum"), nodeplan.KeyPlanState: {},
	}
	response, received := w.put(t, encodeSecret(t, sent), "application/json; charset=utf-8")
	if response.StatusCode != http.StatusOK {
		t.Fatalf("status %d", response.StatusCode)
	}
	want := storedPlan()
	want.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}
	delete(want.Data, nodeplan.KeyProbeStatuses)
	want.Data[nodeplan.KeyFailureCount], want.Data[nodeplan.KeyAppliedChecksum], want.Data[nodeplan.KeyPlanState] =
		[]byte("0"), []byte("sum"), []byte{}
	var got corev1.Secret
	if err := json.Unmarshal(received, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, &got); diff != "" {
		t.Errorf("the API server received (-want +got):\n%s", diff)
	}
	if w.reached()[0].Header.Get("Authorization") != "Bearer "+planJWT {
		t.Error("the update did not carry the agent's credential")
	}
}

func TestReport_FirstReportIntoAnEmptySecret(t *testing.T) {
	w := newWorld(t)
	empty := storedPlan()
	empty.Data = nil
	w.add(w.secrets, empty)
	sent := empty.DeepCopy()
	sent.Data = map[string][]byte{nodeplan.KeyProbeStatuses: []byte("{}")}
	if response, received := w.put(t, encodeSecret(t, sent), "application/json"); response.StatusCode !=
		http.StatusOK || !bytes.Contains(received, []byte("probe-statuses")) {
		t.Errorf("status %d, %s", response.StatusCode, received)
	}
}

func TestReport_VersionsDecide(t *testing.T) {
	version := func(v string) *corev1.Secret {
		secret := storedPlan()
		secret.ResourceVersion = v
		return secret
	}
	notFound := apierrors.NewNotFound(corev1.Resource("secrets"), "b-machine-plan")
	tests := map[string]struct {
		cached, live *corev1.Secret
		liveErr      error
		wantStatus   int
	}{
		"cache agrees":                   {cached: version("9"), wantStatus: 200},
		"the cache is stale":             {cached: version("8"), live: version("9"), wantStatus: 200},
		"the cache is empty":             {live: version("9"), wantStatus: 200},
		"the server wrote afterwards":    {cached: version("10"), live: version("10"), wantStatus: 409},
		"the secret was deleted":         {liveErr: notFound, wantStatus: 404},
		"the API server does not answer": {liveErr: io.ErrUnexpectedEOF, wantStatus: 503},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if tc.cached != nil {
				w.add(w.secrets, tc.cached)
			}
			if tc.live != nil || tc.liveErr != nil {
				w.secretClient.EXPECT().Get("ns", "b-machine-plan", metav1.GetOptions{}).Return(tc.live, tc.liveErr)
			}
			response, received := w.put(t, encodeSecret(t, version("9")), "application/json")
			if response.StatusCode != tc.wantStatus || (received != nil) != (tc.wantStatus == 200) {
				t.Errorf("status %d, the API server received %s", response.StatusCode, received)
			}
		})
	}
}

// yamlSecret would be accepted as JSON.
const yamlSecret = "apiVersion: v1\nkind: Secret\n" +
	"metadata: {name: b-machine-plan, namespace: ns, resourceVersion: '7'}\n"

// The sender learns that the report is too large, and other reports of the machine are still accepted.
func TestReport_TooLargeIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(data map[string][]byte)
		want   string
	}{
		"outputs beyond the budget": {func(data map[string][]byte) {
			for _, key := range []string{nodeplan.KeyAppliedOutput, nodeplan.KeyFailedOutput} {
				output, err := nodeplan.EncodeOutput(map[string][]byte{"a": make([]byte, 500<<10)})
				if err != nil {
					t.Fatal(err)
				}
				data[key] = output
			}
		}, "more than 1 MiB in all reports"},
		"a long value": {func(data map[string][]byte) {
			data[nodeplan.KeyLastApplyTime] = make([]byte, 10<<10)
		}, "more than 256 bytes"},
		"many probes": {func(data map[string][]byte) {
			data[nodeplan.KeyProbeStatuses] = []byte(`{"":{}` + strings.Repeat(`,"":{}`, 9000) + "}")
		}, "JSON values in all reports"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.add(w.secrets, storedPlan())
			sent := storedPlan()
			tc.change(sent.Data)
			server, client := w.serve()
			for range 2 {
				status := w.update(server, client, encodeSecret(t, sent))
				if status.Reason != metav1.StatusReasonRequestEntityTooLarge || status.Code != 413 ||
					!strings.Contains(status.Message, tc.want) {
					t.Errorf("status %+v, want 413 with %q", status, tc.want)
				}
			}
			if len(w.reached()) != 0 {
				t.Error("the API server got the report")
			}
			if logged := strings.Count(w.log.String(), "Refused the report of a machine"); logged != 1 {
				t.Errorf("%d messages are logged, want one: %s", logged, w.log)
			}
			w.update(server, client, encodeSecret(t, storedPlan()))
			if len(w.reached()) != 1 {
				t.Error("a small report is refused")
			}
		})
	}
}

func TestReport_RefusesInvalidBodies(t *testing.T) {
	valid := string(encodeSecret(t, storedPlan()))
	tests := map[string]struct{ body, contentType string }{
		"another secret": {strings.ReplaceAll(valid, "b-machine-plan", "o-machine-plan"), "application/json"},
		"another namespace": {strings.ReplaceAll(valid, `"namespace":"ns"`, `"namespace":"kube-system"`),
			"application/json"},
		"without version": {strings.ReplaceAll(valid, `"resourceVersion":"7"`, `"resourceVersion":""`),
			"application/json"},
		"not JSON":        {"k8s\x00", "application/json"},
		"broken protobuf": {"k8s\x00", "application/vnd.kubernetes.protobuf"},
		"another kind": {
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b-machine-plan","namespace":"ns","resourceVersion":"7"}}`, "application/json"},
		"YAML as JSON": {yamlSecret, "application/json"},
		"many values": {valid[:len(valid)-1] + `,"x":[` + strings.Repeat("0,", maxSentValues) + "0]}",
			"application/json"},
		"many protobuf fields": {"k8s\x00" + strings.Repeat("\x20\x01", maxSentValues+1),
			"application/vnd.kubernetes.protobuf"},
		"YAML":            {valid, "application/yaml"},
		"no content type": {valid, ""},
		"empty":           {"", "application/json"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.add(w.secrets, storedPlan())
			response, received := w.put(t, []byte(tc.body), tc.contentType)
			if response.StatusCode != http.StatusBadRequest || received != nil {
				t.Errorf("status %d, the API server received %s", response.StatusCode, received)
			}
		})
	}
}

// TestReport_AmbiguousJSON: keys that parsers interpret differently do not reach the API server.
func TestReport_AmbiguousJSON(t *testing.T) {
	w := newWorld(t)
	w.add(w.secrets, storedPlan())
	body := `{"metadata":{"name":"b-machine-plan","namespace":"ns","resourceVersion":"7","labels":{"rke.cattle.io/etcd-role":"true"}},` +
		`"Data":{"plan":"ZXZpbA=="},"data":{"plan":"ZXZpbA==","success-count":"Mg=="},"DATA":{"plan":"ZXZpbA=="},"Metadata":{"labels":{"a":"b"}}}`
	response, received := w.put(t, []byte(body), "application/json")
	if response.StatusCode != http.StatusOK || bytes.Contains(received, []byte("ZXZpbA==")) ||
		bytes.Contains(received, []byte("etcd-role")) || !bytes.Contains(received, []byte(`"success-count":"Mg=="`)) {
		t.Errorf("status %d, the API server received %s", response.StatusCode, received)
	}
}

func TestReport_Protobuf(t *testing.T) {
	w := newWorld(t)
	w.add(w.secrets, storedPlan())
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	if !ok {
		t.Fatal("not protobuf")
	}
	sent := storedPlan()
	sent.Data[nodeplan.KeySuccessCount] = []byte("5")
	body, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), sent)
	if err != nil {
		t.Fatal(err)
	}
	response, received := w.put(t, body, runtime.ContentTypeProtobuf)
	if response.StatusCode != http.StatusOK || !bytes.Contains(received, []byte(`"success-count":"NQ=="`)) ||
		w.reached()[0].Header.Get("Content-Type") != "application/json" {
		t.Errorf("status %d, the API server received %s", response.StatusCode, received)
	}
}

package connect

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/testkit/allocations"
)

// mostComposed is what an update may allocate next to a multiple of its size.
const mostComposed = 8<<20 + 8*nodeplan.MaxReportSize

// owned is a JSON Secret with many owner references.
func owned(count int) []byte {
	return []byte(`{"metadata":{"name":"b-machine-plan","namespace":"ns","resourceVersion":"7","ownerReferences":[{}` +
		strings.Repeat(",{}", count-1) + "]}}")
}

// ownedProtobuf is the same as protobuf: the envelope, the Secret, its metadata, and empty owner references.
func ownedProtobuf(tb testing.TB, count int) []byte {
	tb.Helper()
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	if !ok {
		tb.Fatal("not protobuf")
	}
	secret := storedPlan()
	secret.OwnerReferences = append(secret.OwnerReferences, make([]metav1.OwnerReference, count)...)
	body, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), secret)
	if err != nil {
		tb.Fatal(err)
	}
	return body
}

func stored() reports {
	secret := storedPlan()
	get := func(namespace, name string) (*corev1.Secret, error) {
		if namespace != secret.Namespace || name != secret.Name {
			return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name)
		}
		return secret, nil
	}
	return reports{cached: get, live: get}
}

func TestCompose_LargeBodiesAreRefusedCheaply(t *testing.T) {
	tests := map[string]struct {
		contentType string
		body        []byte
	}{
		"owners as JSON":     {"application/json", owned(600_000)},
		"owners as protobuf": {runtime.ContentTypeProtobuf, ownedProtobuf(t, 100_000)},
		"zeros as protobuf":  {runtime.ContentTypeProtobuf, append([]byte("k8s\x00"), make([]byte, maxBody)...)},
		"deep JSON":          {"application/json", bytes.Repeat([]byte("["), maxBody)},
		"aliases of YAML": {"application/json", []byte("a: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\n" +
			"c: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: [*d,*d,*d,*d,*d,*d,*d,*d]\n")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var err error
			allocations.AtMost(t, 1<<20, func() {
				_, err = stored().compose(tc.contentType, tc.body, "ns", "b-machine-plan")
			})
			if err == nil {
				t.Error("the body is accepted")
			}
		})
	}
}

// A machine that begins an update and sends nothing more gets an answer, and its connection ends.
func TestReadBody_EndsWhenTheBodyDoesNotArrive(t *testing.T) {
	handled := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := readBody(w, r, time.Millisecond)
		handled <- err
	}))
	t.Cleanup(server.Close)
	body, writer := io.Pipe()
	t.Cleanup(func() { _ = writer.Close() })
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, server.URL, body)
	if err != nil {
		t.Fatal(err)
	}
	if response, err := server.Client().Do(request); err == nil {
		response.Body.Close()
	}
	if err := <-handled; !errors.Is(err, errBody) {
		t.Errorf("error is %v, want %v", err, errBody)
	}
}

// FuzzCompose looks for updates that cost more memory than a small multiple of their size, or that change what agents
// may not change.
func FuzzCompose(f *testing.F) {
	f.Add(true, []byte(`{"metadata":{"name":"b-machine-plan","namespace":"ns","resourceVersion":"7"},`+
		`"data":{"plan":"ZXZpbA==","failure-count":"Mg=="}}`))
	f.Add(true, owned(5000))
	f.Add(true, []byte(yamlSecret))
	f.Add(false, ownedProtobuf(f, 1))
	f.Add(false, ownedProtobuf(f, 5000))
	f.Fuzz(func(t *testing.T, isJSON bool, raw []byte) {
		contentType := runtime.ContentTypeProtobuf
		if isJSON {
			contentType = runtime.ContentTypeJSON
		}
		var body []byte
		var err error
		allocations.AtMost(t, mostComposed+16*uint64(len(raw)), func() {
			body, err = stored().compose(contentType, raw, "ns", "b-machine-plan")
		})
		if err != nil {
			return
		}
		var sent corev1.Secret
		decodeJSON(t, string(body), &sent)
		want := storedPlan()
		if string(sent.Data[nodeplan.KeyPlan]) != "{}" || len(sent.OwnerReferences) != len(want.OwnerReferences) ||
			len(sent.Labels) != len(want.Labels) || nodeplan.CheckReport(sent.Data) != nil {
			t.Errorf("the API server would get %s", body)
		}
	})
}

package scaling

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rancher/wrangler/v3/pkg/generic"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/pkg/decide/autoscaling"
	"github.com/drover-io/drover/pkg/reach/unread"
)

// secrets is a cache with the Secret of one autoscaler.
type secrets struct {
	generic.CacheInterface[*corev1.Secret]
	only    *corev1.Secret
	indexer generic.Indexer[*corev1.Secret]
}

func (s *secrets) AddIndexer(_ string, indexer generic.Indexer[*corev1.Secret]) { s.indexer = indexer }

func (s *secrets) GetByIndex(_, key string) ([]*corev1.Secret, error) {
	keys, err := s.indexer(s.only)
	for _, has := range keys {
		if has == key {
			return []*corev1.Secret{s.only}, err
		}
	}
	return nil, err
}

// An autoscaler writes a whole Machine to mark it. Only the mark reaches the API server.
func TestServer_ForwardsOnlyTheMarkOfAMachine(t *testing.T) {
	t.Parallel()
	var got string
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = strings.Join([]string{r.Method, r.URL.Path, r.Header.Get("Content-Type"), r.Header.Get("Authorization"),
			string(body)}, " ")
	}))
	t.Cleanup(api.Close)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{
		"cluster.x-k8s.io/cluster-name": "demo", "provisioning.cattle.io/kubeconfig-type": "autoscaler"}},
		Data: map[string][]byte{autoscaling.KeyToken: []byte("theirs")}}
	handler, err := New(Options{Upstream: &rest.Config{Host: api.URL}, Secrets: &secrets{only: secret},
		Unread: unread.New(unread.Options{Timeout: time.Minute}), Log: logrus.StandardLogger()})
	if err != nil {
		t.Fatal(err)
	}
	const path = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machines/a"
	const patched = "PATCH " + path + " application/merge-patch+json Bearer theirs "
	for name, c := range map[string]struct{ body, want string }{
		"a mark": {`{"kind":"Machine","metadata":{"resourceVersion":"7",` +
			`"labels":{"cluster.x-k8s.io/cluster-name":"other"},"annotations":{"a":"b","cluster.x-k8s.io/delete-machine":"now"}},"spec":{"clusterName":"other"}}`,
			patched + `{"metadata":{"annotations":{"cluster.x-k8s.io/delete-machine":"now"},"resourceVersion":"7"}}`},
		"no mark": {`{"kind":"Machine","metadata":{"annotations":{"a":"b"}}}`,
			patched + `{"metadata":{"annotations":{"cluster.x-k8s.io/delete-machine":null}}}`},
		"no JSON":        {"k8s\x00", ""},
		"another object": {`{"kind":"MachineSet"}`, ""},
	} {
		got = ""
		request := httptest.NewRequest(http.MethodPut, "/k8s/clusters/local"+path, strings.NewReader(c.body))
		request.Header.Set("Authorization", "Bearer theirs")
		request.Header.Set("Content-Type", "application/json")
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		if got != c.want || (answer.Code == http.StatusOK) != (c.want != "") {
			t.Errorf("%s: code %d, forwarded %q, want %q", name, answer.Code, got, c.want)
		}
	}
}

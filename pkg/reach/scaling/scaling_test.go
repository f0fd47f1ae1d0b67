package scaling

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rancher/wrangler/v3/pkg/generic"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
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
	if slices.Contains(keys, key) {
		return []*corev1.Secret{s.only}, err
	}
	return nil, err
}

// clusters is a cache with one Cluster.
type clusters struct {
	generic.CacheInterface[*provv1.Cluster]
	only *provv1.Cluster
}

func (c clusters) Get(namespace, name string) (*provv1.Cluster, error) {
	if namespace != "ns" || name != "demo" {
		return nil, errors.New("not found")
	}
	return c.only, nil
}

// An autoscaler writes a whole Machine to mark it, and a size within the limits. Only these reach the API server.
func TestServer_ReducesWrites(t *testing.T) {
	t.Parallel()
	var got string
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = strings.Join([]string{r.Method, r.URL.Path, r.Header.Get("Content-Type"), r.Header.Get("Authorization"),
			string(body)}, " ")
	}))
	t.Cleanup(upstream.Close)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{
		"cluster.x-k8s.io/cluster-name": "demo", "provisioning.cattle.io/kubeconfig-type": "autoscaler"}},
		Data: map[string][]byte{autoscaling.KeyToken: []byte("theirs")}}
	pools := []provv1.RKEMachinePool{{Name: "auto", AutoscalingMinSize: new(int32(0)),
		AutoscalingMaxSize: new(int32(3))}, {Name: "server"}}
	handler, err := New(Options{Upstream: &rest.Config{Host: upstream.URL}, Secrets: &secrets{only: secret},
		Clusters: clusters{only: &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo"},
			Spec: provv1.ClusterSpec{RKEConfig: &provv1.RKEConfig{MachinePools: pools}}}},
		Unread: unread.New(unread.Options{Timeout: time.Minute}), Log: logrus.StandardLogger()})
	if err != nil {
		t.Fatal(err)
	}
	const api = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/"
	const machine, scale = api + "machines/a", api + "machinedeployments/demo-auto/scale"
	const merged = " application/merge-patch+json Bearer theirs "
	const mark, size = "PATCH " + machine + merged, "PATCH " + scale + merged
	for name, c := range map[string]struct {
		method, path, body string
		code               int
		want               string // "" if nothing is forwarded
	}{
		"a mark": {"PUT", machine, `{"kind":"Machine","metadata":{"resourceVersion":"7",` +
			`"labels":{"cluster.x-k8s.io/cluster-name":"other"},"annotations":{"a":"b",` +
			`"cluster.x-k8s.io/delete-machine":"now"}},"spec":{"clusterName":"other"}}`, 200,
			mark + `{"metadata":{"annotations":{"cluster.x-k8s.io/delete-machine":"now"},"resourceVersion":"7"}}`},
		"no mark": {"PUT", machine, `{"kind":"Machine","metadata":{"annotations":{"a":"b"}}}`, 200,
			mark + `{"metadata":{"annotations":{"cluster.x-k8s.io/delete-machine":null}}}`},
		"a Machine that is no JSON": {"PUT", machine, "k8s\x00", 400, ""},
		"another object":            {"PUT", machine, `{"kind":"MachineSet"}`, 400, ""},
		"a size": {"PATCH", scale, `{"spec":{"replicas":3}}`, 200,
			size + `{"metadata":{},"spec":{"replicas":3}}`},
		"a whole Scale": {"PUT", scale,
			`{"metadata":{"resourceVersion":"7","labels":{"a":"b"}},"spec":{"replicas":0}}`, 200,
			size + `{"metadata":{"resourceVersion":"7"},"spec":{"replicas":0}}`},
		"a size above the maximum": {"PATCH", scale, `{"spec":{"replicas":4}}`, 403, ""},
		"a size that is hidden": {"PATCH", scale, `{"spec":{"replicas":900,"Replicas":1}}`, 200,
			size + `{"metadata":{},"spec":{"replicas":1}}`},
		"no size":          {"PATCH", scale, `{"spec":{}}`, 400, ""},
		"a list of steps":  {"PATCH", scale, `[{"op":"add","path":"/spec/replicas","value":9}]`, 400, ""},
		"a pool of others": {"PATCH", api + "machinedeployments/demo-server/scale", `{"spec":{"replicas":1}}`, 403, ""},
	} {
		got = ""
		request := httptest.NewRequest(c.method, "/k8s/clusters/local"+c.path, strings.NewReader(c.body))
		request.Header.Set("Authorization", "Bearer theirs")
		request.Header.Set("Content-Type", "application/json")
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		if got != c.want || answer.Code != c.code {
			t.Errorf("%s: code %d, forwarded %q, want %d and %q", name, answer.Code, got, c.code, c.want)
		}
	}
}

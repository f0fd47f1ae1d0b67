package inspect

import (
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

type refuse struct{ t *testing.T }

func (r refuse) RoundTrip(request *http.Request) (*http.Response, error) {
	r.t.Errorf("sent: %s %s", request.Method, request.URL)
	return nil, http.ErrAbortHandler
}

func TestReadOnly_SendsNothingThatWrites(t *testing.T) {
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		request, err := http.NewRequestWithContext(t.Context(), method, "https://example.com/x", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := readOnly{refuse{t}}.RoundTrip(request)
		if err == nil || !strings.Contains(err.Error(), "only reads") {
			t.Errorf("%s: %v", method, err)
		}
		if response != nil {
			_ = response.Body.Close()
		}
	}
}

// The cache requests each object once and returns the same object every time.
func TestOnce_AsksOnce(t *testing.T) {
	scheme, err := clients.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	api := memkube.New(memkube.Options{Scheme: scheme, Namespaces: []string{"a", "b"}, Authorize: func(r *http.Request) error {
		if strings.Contains(r.URL.Path, "/configmaps") {
			asked++
		}
		return nil
	}})
	for _, namespace := range []string{"a", "b"} {
		object := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "x"}}
		if err := api.Add(object); err != nil {
			t.Fatal(err)
		}
	}
	c, err := clients.New(api.Config("test"), clients.Options{WithoutDynamic: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	cache := readOnce(c.Core.ConfigMap(), "a").Cache()
	cache.AddIndexer("by-name", func(o *corev1.ConfigMap) ([]string, error) { return []string{o.Name}, nil })
	for range 3 {
		if _, err := cache.Get("a", "absent"); !apierrors.IsNotFound(err) {
			t.Errorf("an absent one: %v", err)
		}
		if list, err := cache.List("a", labels.Everything()); err != nil || len(list) != 1 {
			t.Errorf("list: %v, %v", list, err)
		}
		if found, err := cache.GetByIndex("by-name", "x"); err != nil || len(found) != 1 {
			t.Errorf("by index: %v, %v", found, err)
		}
		if _, err := cache.Get("a", "x"); err != nil {
			t.Error(err)
		}
	}
	if asked != 2 {
		t.Errorf("asked %d times, want twice: once for what is absent, once for all", asked)
	}
}

package applyset_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/pkg/kube/applyset"
)

// A marked object belongs to its set only, and keeps its other labels and annotations.
func TestMark(t *testing.T) {
	owner := schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Owner"}
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"mine": "x"}}}
	if applyset.Marked(obj, "set", owner, "ns", "o") {
		t.Fatal("an object without a mark belongs to the set")
	}
	if err := applyset.Mark(obj, "set", owner, "ns", "o"); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		set, namespace, owner string
		want                  bool
	}{
		"its own mark":      {"set", "ns", "o", true},
		"another set":       {"other", "ns", "o", false},
		"another owner":     {"set", "ns", "p", false},
		"another namespace": {"set", "elsewhere", "o", false},
	} {
		if got := applyset.Marked(obj, c.set, owner, c.namespace, c.owner); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if obj.Labels["mine"] != "x" || obj.Annotations["objectset.rio.cattle.io/owner-name"] != "o" {
		t.Errorf("labels %v, annotations %v", obj.Labels, obj.Annotations)
	}
}

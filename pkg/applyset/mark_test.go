package applyset_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/pkg/applyset"
)

// TestMark: what is marked is the set's, keeps what it had, and is no other set's.
func TestMark(t *testing.T) {
	owner := schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Owner"}
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"mine": "x"}}}
	if ours, err := applyset.Marked(obj, "set", owner, "ns", "o"); ours || err != nil {
		t.Fatalf("without a mark: %v, %v", ours, err)
	}
	if err := applyset.Mark(obj, "set", owner, "ns", "o"); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		set, namespace, owner string
		want                  bool
	}{
		"its own":       {"set", "ns", "o", true},
		"another set":   {"other", "ns", "o", false},
		"another owner": {"set", "ns", "p", false},
		"another place": {"set", "elsewhere", "o", false},
	} {
		if got, err := applyset.Marked(obj, c.set, owner, c.namespace, c.owner); got != c.want || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if obj.Labels["mine"] != "x" || obj.Annotations["objectset.rio.cattle.io/owner-name"] != "o" {
		t.Errorf("labels %v, annotations %v", obj.Labels, obj.Annotations)
	}
}

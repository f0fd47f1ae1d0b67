package clients

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// A look-up of a cache allocates almost nothing, because each pass of most handlers makes several.
func TestInformer_LooksUpOnce(t *testing.T) {
	c, err := New(newAPI(t).Config("x"), Options{})
	check(t, err)
	defer c.Stop()
	kind := rkev1.SchemeGroupVersion.WithKind("RKEControlPlane")
	first, err := c.Informer(kind)
	check(t, err)
	if again, err := c.Informer(kind); err != nil || again != first {
		t.Errorf("the second look-up finds another cache: %v", err)
	}
	if made := testing.AllocsPerRun(100, func() { _, _ = c.Informer(kind) }); made > 2 {
		t.Errorf("a look-up makes %.0f allocations", made)
	}
	if other, err := c.Informer(corev1.SchemeGroupVersion.WithKind("ConfigMap")); err != nil || other == first {
		t.Errorf("another kind has its own cache: %v", err)
	}
}

func BenchmarkInformer(b *testing.B) {
	c, err := New(newAPI(b).Config("x"), Options{})
	check(b, err)
	defer c.Stop()
	kind := rkev1.SchemeGroupVersion.WithKind("RKEControlPlane")
	for b.Loop() {
		if _, err := c.Informer(kind); err != nil {
			b.Fatal(err)
		}
	}
}

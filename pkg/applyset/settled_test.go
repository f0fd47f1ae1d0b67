package applyset

import (
	"testing"
	"testing/synctest"

	"github.com/rancher/wrangler/v3/pkg/apply"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// known tells whether the next apply of these objects compares nothing.
func (f *fixture) known() bool {
	f.Helper()
	labels, _, err := markOf(setID, configMaps, f.owner.Namespace, f.owner.Name)
	check(f.T, err)
	_, known := f.set.settled.sets.Get(labels[apply.LabelHash])
	return known
}

// A set that needs nothing is compared once. Whatever somebody does to its objects afterwards is seen and undone.
func TestApply_SettledSetIsWatchedOver(t *testing.T) {
	edit := func(change func(*corev1.ConfigMap)) func(*fixture) {
		return func(f *fixture) {
			made, err := f.kube.CoreV1().ConfigMaps("ns").Get(f.Context(), "a", metav1.GetOptions{})
			check(f.T, err)
			change(made)
			_, err = f.kube.CoreV1().ConfigMaps("ns").Update(f.Context(), made, metav1.UpdateOptions{})
			check(f.T, err)
		}
	}
	const hash = "objectset.rio.cattle.io/hash"
	tests := map[string]struct {
		happens func(*fixture)
		want    Result
	}{
		"content changed":         {edit(func(c *corev1.ConfigMap) { c.Data["k"] = "theirs" }), Result{Updated: []string{"configmaps ns/a"}}},
		"mark of the set removed": {edit(func(c *corev1.ConfigMap) { delete(c.Labels, hash) }), Result{Updated: []string{"configmaps ns/a"}}},
		"owner removed":           {edit(func(c *corev1.ConfigMap) { c.OwnerReferences = nil }), Result{Updated: []string{"configmaps ns/a"}}},
		"object deleted": {func(f *fixture) {
			check(f.T, f.kube.CoreV1().ConfigMaps("ns").Delete(f.Context(), "a", metav1.DeleteOptions{}))
		}, Result{Created: []string{"configmaps ns/a"}}},
		"one more in the set": {func(f *fixture) {
			made, err := f.kube.CoreV1().ConfigMaps("ns").Get(f.Context(), "a", metav1.GetOptions{})
			check(f.T, err)
			more := configMap("more", "1")
			more.Labels, more.Annotations = made.Labels, made.Annotations
			_, err = f.kube.CoreV1().ConfigMaps("ns").Create(f.Context(), more, metav1.CreateOptions{})
			check(f.T, err)
		}, Result{Deleted: []string{"configmaps ns/more"}}},
		"nothing": {func(*fixture) {}, Result{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			run(t, func(f *fixture) {
				f.apply(configMap("a", "1"), configMap("b", "1"))
				if f.known() {
					t.Error("a set that was just made is not known to be settled: nobody has seen it in a cache")
				}
				f.want("settled", Result{}, f.apply(configMap("a", "1"), configMap("b", "1")))
				if !f.known() {
					t.Error("a set that needed nothing is compared again")
				}
				test.happens(f)
				synctest.Wait()
				f.want("after it", test.want, f.apply(configMap("a", "1"), configMap("b", "1")))
				f.want("changed by us", Result{Updated: []string{"configmaps ns/b"}}, f.apply(configMap("a", "1"), configMap("b", "2")))
				f.want("settled again", Result{}, f.apply(configMap("a", "1"), configMap("b", "2")))
			})
		})
	}
}

func TestPurge_ForgetsTheSet(t *testing.T) {
	run(t, func(f *fixture) {
		f.apply(configMap("a", "1"))
		f.apply(configMap("a", "1"))
		_, err := f.set.Purge(t.Context(), setID, configMaps, "ns", "owner", both)
		check(t, err)
		synctest.Wait()
		if f.known() {
			t.Error("a set that was deleted is remembered")
		}
		f.want("made anew", Result{Created: []string{"configmaps ns/a"}}, f.apply(configMap("a", "1")))
	})
}

package applyset

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// A kept field has the value of another program, also if that wrote it after the desired object was made. Creation sets
// the field.
func TestApply_KeepsFieldsOfOtherPrograms(t *testing.T) {
	run(t, func(f *fixture) {
		size := func(k, size string) *corev1.ConfigMap {
			made := configMap("a", k)
			made.Data["size"] = size
			return made
		}
		ctx := KeepFields(t.Context(), Field{configMaps, "ns", "a", "/data/size"})
		apply := func(objs *corev1.ConfigMap) map[string]string {
			t.Helper()
			_, err := f.set.Apply(ctx, setID, f.owner, OwnerRef, both, []runtime.Object{objs})
			check(t, err)
			synctest.Wait()
			made, err := f.kube.CoreV1().ConfigMaps("ns").Get(t.Context(), "a", metav1.GetOptions{})
			check(t, err)
			return made.Data
		}
		f.want("created", map[string]string{"k": "1", "size": "1"}, apply(size("1", "1")))
		made, err := f.kube.CoreV1().ConfigMaps("ns").Get(t.Context(), "a", metav1.GetOptions{})
		check(t, err)
		made.Data["size"] = "3"
		_, err = f.kube.CoreV1().ConfigMaps("ns").Update(t.Context(), made, metav1.UpdateOptions{})
		check(t, err)
		synctest.Wait()
		f.want("a desired object from before", map[string]string{"k": "2", "size": "3"}, apply(size("2", "1")))
		f.want("the next one", map[string]string{"k": "2", "size": "3"}, apply(size("2", "3")))

		ctx = t.Context()
		f.want("without kept fields", map[string]string{"k": "2", "size": "1"}, apply(size("2", "1")))
	})
}

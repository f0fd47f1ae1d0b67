package machineprovision_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An administrator installed a driver under another name. Later Drover creates an inactive NodeDriver of a vendor with
// the name of the driver.
func TestStory_InactiveNamesakeOfADriver(t *testing.T) {
	tell(t, func(w *world) {
		w.run()
		drivers := w.c.Management.NodeDriver()
		driver, err := drivers.Get("digitalocean", metav1.GetOptions{})
		must(t, err)
		own := driver.DeepCopy()
		own.ObjectMeta = metav1.ObjectMeta{Name: "my-own", Annotations: driver.Annotations}
		_, err = drivers.Create(own)
		must(t, err)
		w.activate("digitalocean", false)
		w.addMachine("m1", false)
		w.run()
		if w.made["m1"] != 1 {
			t.Errorf("the host was made %d times: %+v", w.made["m1"], w.status("m1"))
		}
	})
}

package machineprovision_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A removal that has failed often is repeated soon after the credential changes.
func TestStory_RotatedCredentialEndsTheDelayOfARemoval(t *testing.T) {
	tell(t, func(w *world) {
		w.run()
		w.addMachine("m1", false)
		w.run()
		w.fail = "401: the token is revoked"
		must(t, w.c.CAPI.Machine().Delete(namespace, "m1", nil))
		for range 8 {
			w.run()
			w.sleep(time.Hour)
		}
		w.run()
		failed := len(w.given)
		w.fail = ""
		w.sleep(3 * time.Minute)
		w.run()
		if len(w.given) != failed || w.removed["m1"] != 0 {
			t.Errorf("the delay is too short: %d attempts, then %d", failed, len(w.given))
		}
		credential, err := w.c.Core.Secret().Get("cattle-global-data", credShort, metav1.GetOptions{})
		must(t, err)
		credential.Data["digitaloceancredentialConfig-accessToken"] = []byte("rotated")
		_, err = w.c.Core.Secret().Update(credential)
		must(t, err)
		w.sleep(2 * time.Minute)
		w.run()
		if w.removed["m1"] != 1 {
			t.Errorf("the host was removed %d times: %+v", w.removed["m1"], w.status("m1"))
		}
	})
}

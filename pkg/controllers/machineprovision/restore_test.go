package machineprovision_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/naming"
)

// removal lets the removal of a machine begin. Its pod does not start until hold ends.
func (w *world) removal() {
	w.Helper()
	w.run()
	w.addMachine("m1", false)
	w.run()
	w.hold = true
	must(w.T, w.c.CAPI.Machine().Delete(namespace, "m1", nil))
	w.run()
	if _, err := w.c.Batch.Job().Get(namespace, "m1-machine-provision-remove-1", metav1.GetOptions{}); err != nil {
		w.Fatalf("the removal does not run: %v", err)
	}
}

// writes returns what the manager has written since the last call of ResetLog, as "VERB RESOURCE NAMESPACE/NAME".
func (w *world) writes() (out []string) {
	for _, entry := range w.api.Writes(manager) {
		if entry.Code >= 300 {
			w.Errorf("a write fails: %d %s", entry.Code, entry)
		}
		words := strings.Fields(entry.String())
		out = append(out, strings.Join(words[1:], " "))
	}
	return out
}

// delete deletes an object of the machine, of a kind that the pods of a removal need.
func (w *world) delete(resource, name string) {
	w.Helper()
	remove := map[string]func(namespace, name string, options *metav1.DeleteOptions) error{
		"secrets": w.c.Core.Secret().Delete, "serviceaccounts": w.c.Core.ServiceAccount().Delete,
		"roles.rbac.authorization.k8s.io":        w.c.RBAC.Role().Delete,
		"rolebindings.rbac.authorization.k8s.io": w.c.RBAC.RoleBinding().Delete,
	}[resource]
	must(w.T, remove(namespace, name, nil))
}

// A pod of a removal that waits for a deleted object gets the object again, with one write. Nothing else is written.
func TestStory_RunningRemovalGetsDeletedObjectsAgain(t *testing.T) {
	for _, object := range []string{
		"secrets m1-machine-driver-secret", "secrets " + naming.MachineCerts("m1"), "secrets m1-machine-pull-0",
		"serviceaccounts m1-machine-provision", "roles.rbac.authorization.k8s.io m1-machine-provision",
		"rolebindings.rbac.authorization.k8s.io m1-machine-provision",
		"rolebindings.rbac.authorization.k8s.io m1-machine-provision-extension",
	} {
		t.Run(object, func(t *testing.T) {
			tell(t, func(w *world) {
				w.addExtension()
				must(w.T, w.api.Add(&corev1.Secret{
					TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
					ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-global-data", Name: "login"},
					Type:       corev1.SecretTypeDockerConfigJson,
					Data:       map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{}`)},
				}))
				w.settings.Registry, w.settings.Image = "r.example.com", "r.example.com/rancher/machine:test"
				w.settings.PullSecrets = []types.NamespacedName{{Namespace: "cattle-global-data", Name: "login"}}
				w.settings.Certificates = map[string]string{"tls.crt": "PEM\n"}
				w.removal()
				w.sleep(time.Minute)
				w.api.ResetLog()
				resource, name, _ := strings.Cut(object, " ")
				w.delete(resource, name)
				w.sleep(10 * time.Minute)
				want := []string{"create " + resource + " " + namespace + "/" + name}
				if diff := cmp.Diff(want, w.writes()); diff != "" {
					w.Errorf("writes after the deletion (-want +got):\n%s", diff)
				}
				w.hold = false
				w.run()
				if w.machine("m1") != nil || w.removed["m1"] != 1 {
					w.Errorf("removed %d times, machine %v", w.removed["m1"], w.machine("m1"))
				}
			})
		})
	}
}

// A removal whose Secret and credential are deleted names the credential, and continues with it.
func TestStory_RemovalWithoutItsSecretNamesTheMissingCredential(t *testing.T) {
	tell(t, func(w *world) {
		w.removal()
		credential, err := w.c.Core.Secret().Get("cattle-global-data", credShort, metav1.GetOptions{})
		must(t, err)
		must(t, w.c.Core.Secret().Delete("cattle-global-data", credShort, nil))
		w.sleep(time.Minute)
		must(t, w.c.Core.Secret().Delete(namespace, "m1-machine-driver-secret", nil))
		w.hold = false
		w.run()
		ready := conditions.Get(w.status("m1").Conditions, rkev1.ConditionReady)
		if ready == nil || !strings.Contains(ready.Message, "cattle-global-data/"+credShort) {
			t.Errorf("condition is %+v, want one that names the credential", ready)
		}
		credential.ResourceVersion, credential.UID = "", ""
		_, err = w.c.Core.Secret().Create(credential)
		must(t, err)
		w.run()
		if w.machine("m1") != nil || w.removed["m1"] != 1 {
			t.Errorf("removed %d times, machine %v", w.removed["m1"], w.machine("m1"))
		}
	})
}

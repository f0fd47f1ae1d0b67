package machineprovision_test

import (
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestStory_ImagesArePulledWithCopies: the private registry's login is copied from another namespace to the pods'
// namespace for as long as they need it.
func TestStory_ImagesArePulledWithCopies(t *testing.T) {
	tell(t, func(w *world) {
		const login = `{"auths":{"r.example.com":{"auth":"eA=="}}}`
		must(t, w.api.Add(&corev1.Secret{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-global-data", Name: "login"},
			Type:       corev1.SecretTypeDockerConfigJson,
			Data:       map[string][]byte{corev1.DockerConfigJsonKey: []byte(login)},
		}))
		w.settings.Registry, w.settings.Image = "r.example.com", "r.example.com/rancher/machine:test"
		w.settings.PullSecrets = []types.NamespacedName{{Namespace: "cattle-global-data", Name: "login"}}
		w.run() // creates the drivers' kinds
		w.hold = true
		w.addMachine("m1", false)
		w.run()

		var job batchv1.Job
		job.Namespace, job.Name = namespace, "m1-machine-provision"
		job.SetGroupVersionKind(jobKind)
		if found, err := w.api.Get(&job); err != nil || !found {
			t.Fatalf("the Job exists: %t, %v", found, err)
		}
		pulled := job.Spec.Template.Spec.ImagePullSecrets
		if len(pulled) != 1 {
			t.Fatalf("the pod has the pull secrets %v", pulled)
		}
		copied, err := w.c.Core.Secret().Get(namespace, pulled[0].Name, metav1.GetOptions{})
		must(t, err)
		if string(copied.Data[corev1.DockerConfigJsonKey]) != login ||
			copied.Type != corev1.SecretTypeDockerConfigJson || len(copied.OwnerReferences) != 1 {
			t.Errorf("the pod has the pull secrets %+v", copied)
		}

		w.hold = false
		w.sleep(time.Minute)
		w.run()
		if slices.Contains(w.owned(), "Secret "+copied.Name) {
			t.Error("the login is left in the namespace of the machine")
		}
	})
}

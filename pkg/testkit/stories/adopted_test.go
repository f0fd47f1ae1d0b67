package stories

import (
	"bytes"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubeschema "k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/clients"
)

// formerly gives the objects of a cluster the finalizers that a former manager has left on them.
func (s *story) formerly() {
	s.t.Helper()
	name := s.read().Status.ClusterName
	for _, of := range []struct {
		gvk             kubeschema.GroupVersionKind
		namespace, name string
		finalizers      []string
	}{
		{provv1.SchemeGroupVersion.WithKind("Cluster"), namespace, "demo",
			[]string{provv1.CloudConfigSecretFinalizer, "auth.cattle.io/capi-resources-cleanup"}},
		{mgmtv3.SchemeGroupVersion.WithKind("Cluster"), "", name,
			[]string{mgmtv3.ManagementClusterFinalizer, "controller.cattle.io/cluster-provisioner-controller"}},
		{corev1.SchemeGroupVersion.WithKind("Namespace"), "", name, []string{"controller.cattle.io/namespace-auth"}},
	} {
		for _, object := range s.api.Objects(of.gvk) {
			if object.GetNamespace() == of.namespace && object.GetName() == of.name {
				object.SetFinalizers(append(object.GetFinalizers(), of.finalizers...))
				s.add(object)
			}
		}
	}
}

// holds returns the objects with a finalizer of a former manager.
func (s *story) holds() (held []*unstructured.Unstructured) {
	kinds := append(childKinds(), provv1.SchemeGroupVersion.WithKind("Cluster"),
		corev1.SchemeGroupVersion.WithKind("Namespace"))
	for _, gvk := range kinds {
		for _, object := range s.api.Objects(gvk) {
			for _, finalizer := range object.GetFinalizers() {
				if strings.HasPrefix(finalizer, "controller.cattle.io/") ||
					finalizer == mgmtv3.ManagementClusterFinalizer || finalizer == provv1.CloudConfigSecretFinalizer {
					held = append(held, object)
				}
			}
		}
	}
	return held
}

// The deletion of an adopted cluster does not wait for a manager that is gone.
func TestCluster_AdoptedIsDeletedWhereverTheProcessIsKilled(t *testing.T) {
	retell(t, 12, func(s *story) {
		s.t.Helper()
		settled(s)
		s.formerly()
		s.settle()
		if held := len(s.holds()); held < 3 {
			s.t.Errorf("%d objects have finalizers of a former manager before the deletion", held)
		}
	}, func(s *story) {
		s.t.Helper()
		s.delete()
		s.settle()
		s.wantNothing()
		if held := s.holds(); len(held) > 0 {
			s.t.Errorf("%s %s still has finalizers %v", held[0].GetKind(), held[0].GetName(), held[0].GetFinalizers())
		}
	})
}

// A finalizer of a program that may still run keeps the object.
func TestCluster_AdoptedKeepsFinalizersOfOthers(t *testing.T) {
	tell(t, func(s *story) {
		settled(s)
		s.formerly()
		s.edit(func(c *provv1.Cluster) { c.Finalizers = append(c.Finalizers, "example.com/mine") })
		s.delete()
		s.settle()
		left := s.read()
		if left == nil || len(left.Finalizers) != 1 || left.Finalizers[0] != "example.com/mine" {
			t.Errorf("the cluster that is left: %+v", left)
		}
		if others := s.api.Objects(clusterv1.GroupVersion.WithKind("Cluster")); len(others) > 0 {
			t.Errorf("%d Cluster API clusters are left", len(others))
		}
	})
}

// Drover's cache does not hold the data of a large Secret. The Secret still goes with its cluster.
func TestCluster_LargeSecretIsDeletedWithItsCluster(t *testing.T) {
	tell(t, func(s *story) {
		s.add(&corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "large", Annotations: map[string]string{
				rkev1.AuthorizedObjectAnnotation:        "demo",
				rkev1.AuthorizedSecretDeletesAnnotation: "true"}},
			Type: corev1.SecretTypeOpaque,
			Data: map[string][]byte{"x": bytes.Repeat([]byte("x"), clients.DefaultSecretBytes+1)}})
		settled(s)
		s.delete()
		s.settle()
		if left := s.children(); len(left) > 0 || s.read() != nil {
			t.Errorf("remaining objects: %v", left)
		}
	})
}

package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/operate/adopt"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
)

// rancherFinalizers are the finalizers that only Rancher removes, by kind.
var rancherFinalizers = map[schema.GroupVersionKind][]string{
	provv1.SchemeGroupVersion.WithKind("Cluster"): {
		"wrangler.cattle.io/cloud-config-secret-remover", "auth.cattle.io/capi-resources-cleanup",
	},
	mgmtv3.SchemeGroupVersion.WithKind("Cluster"): {
		"wrangler.cattle.io/mgmt-cluster-remove", "controller.cattle.io/cluster-agent-controller-cleanup",
		"controller.cattle.io/cluster-provisioner-controller", "controller.cattle.io/cluster-scoped-gc",
		"controller.cattle.io/mgmt-cluster-rbac-remove",
	},
	corev1.SchemeGroupVersion.WithKind("Namespace"):    {"controller.cattle.io/namespace-auth"},
	rkev1.SchemeGroupVersion.WithKind("CustomMachine"): {"wrangler.cattle.io/unmanaged-machine"},
}

// addFinalizers adds finalizers to the objects of a kind that belong to the cluster, and returns their number.
func (w *world) addFinalizers(kind schema.GroupVersionKind, finalizers ...string) int {
	w.Helper()
	added := 0
	for _, object := range w.api.Objects(kind) {
		if kind.Kind == "Namespace" && !strings.HasPrefix(object.GetName(), naming.ManagementClusterPrefix) {
			continue
		}
		object.SetFinalizers(append(object.GetFinalizers(), finalizers...))
		check(w.T, w.api.Add(object))
		added++
	}
	return added
}

// withRancherFinalizers adds all of Rancher's finalizers to the objects of the cluster.
func (w *world) withRancherFinalizers(but string) {
	w.Helper()
	for kind, finalizers := range rancherFinalizers {
		if added := w.addFinalizers(kind, finalizers...); added == 0 && kind.Kind != but {
			w.Fatalf("no object of kind %s", kind)
		}
	}
}

// namespaceGone fails if the namespace of the management Cluster still exists.
func (w *world) namespaceGone() {
	w.Helper()
	for _, namespace := range w.api.Objects(corev1.SchemeGroupVersion.WithKind("Namespace")) {
		if strings.HasPrefix(namespace.GetName(), naming.ManagementClusterPrefix) {
			w.Errorf("namespace %s remains, with finalizers %v", namespace.GetName(), namespace.GetFinalizers())
		}
	}
}

// An adopted cluster keeps Rancher's finalizers until it is deleted. Drover then removes them, and the cluster
// disappears with its hosts.
func TestStory_AClusterAdoptedFromRancherIsRemoved(t *testing.T) {
	crashpoints.SkipRaced(t)
	tell(t, func(w *world) {
		w.made(1, 1)
		w.asRancher()
		w.withRancherFinalizers("CustomMachine")
		w.foreign()
		check(t, w.take(w.look(), w.limits(adopt.FromRancher)))
		time.Sleep(10 * time.Minute)
		w.until("the adopted cluster", time.Minute, w.ready(2))
		w.quiet(time.Hour)
		for kind, finalizers := range rancherFinalizers {
			for _, object := range w.api.Objects(kind) {
				if missing := missingOf(object, finalizers); missing != "" && (kind.Kind != "Namespace" ||
					strings.HasPrefix(object.GetName(), naming.ManagementClusterPrefix)) {
					t.Errorf("%s %s is not deleted, and has lost %s", kind.Kind, object.GetName(), missing)
				}
			}
		}
		w.removed()
		w.namespaceGone()
	})
}

func missingOf(object *unstructured.Unstructured, finalizers []string) string {
	for _, finalizer := range finalizers {
		if !slices.Contains(object.GetFinalizers(), finalizer) {
			return finalizer
		}
	}
	return ""
}

// Drover removes no finalizer of a program that it does not know. Events name each of them.
func TestStory_FinalizersOfOtherProgramsStay(t *testing.T) {
	tell(t, func(w *world) {
		w.start()
		w.apply(k3s, w.servers(1, 1))
		w.until("the cluster", 10*time.Minute, w.ready(2))
		clusters := []schema.GroupVersionKind{provv1.SchemeGroupVersion.WithKind("Cluster"),
			mgmtv3.SchemeGroupVersion.WithKind("Cluster")}
		w.withRancherFinalizers("CustomMachine")
		for _, kind := range clusters {
			w.addFinalizers(kind, "example.com/guard")
		}
		check(t, w.user.Provisioning.Cluster().Delete(fleet, demo, &metav1.DeleteOptions{}))
		for _, kind := range clusters {
			w.until("Drover's part of the removal", 10*time.Minute, func() string {
				objects := w.api.Objects(kind)
				if len(objects) == 0 {
					return kind.String() + " is gone"
				}
				if got := objects[0].GetFinalizers(); !slices.Equal(got, []string{"example.com/guard"}) ||
					objects[0].GetDeletionTimestamp() == nil {
					return fmt.Sprintf("%s has the finalizers %v", kind, got)
				}
				return ""
			})
		}
		time.Sleep(time.Minute)
		if held := w.told()["Cluster DeletionHeld"]; held != 2 {
			t.Errorf("%d events name the finalizers, want one on each Cluster", held)
		}
		w.namespaceGone()
		w.quiet(time.Hour)
	})
}

package server

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

var jobs = schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}

// recordMaking stores all objects while Jobs create the first machines of a cluster. It also stores one object of each
// kind that others create.
func recordMaking(t *testing.T, dir string) {
	t.Helper()
	tell(t, func(w *world) {
		w.start()
		w.stopHosts() // so that the Jobs do not end
		w.apply(k3s, w.servers(1, 1))
		w.until("the Jobs", time.Minute, func() string {
			if n := len(w.api.Objects(jobs)); n < 2 {
				return fmt.Sprintf("%d Jobs", n)
			}
			return ""
		})
		w.stop()
		check(t, w.api.Add(
			&rkev1.CustomMachine{
				TypeMeta:   metav1.TypeMeta{APIVersion: rkev1.SchemeGroupVersion.String(), Kind: "CustomMachine"},
				ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: "custom-a1b2c3"},
				Spec:       rkev1.CustomMachineSpec{ProviderID: "rke2://node-7"},
			},
			&rkev1.ETCDSnapshot{
				TypeMeta:   metav1.TypeMeta{APIVersion: rkev1.SchemeGroupVersion.String(), Kind: "ETCDSnapshot"},
				ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: demo + "-etcd-snapshot-1"},
				Spec:       rkev1.ETCDSnapshotSpec{ClusterName: demo},
			},
		))
		store(t, filepath.Join(dir, "making.yaml"), w.stored())
	})
}

// goesOn checks that today's Drover takes over while Jobs create machines: it keeps the running Jobs, and each becomes
// one machine.
func goesOn(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	tell(t, func(w *world) {
		for _, object := range objects {
			check(t, w.api.Add(object))
		}
		w.api.ResetLog()
		w.start()
		w.until("the cluster", 10*time.Minute, w.ready(2))
		time.Sleep(time.Minute)
		for _, write := range w.api.Writes(ours) {
			if write.Resource == "jobs.batch" && write.Verb == "create" {
				t.Errorf("another Job: %v", write)
			}
		}
		if made := w.hosts.Machines(fleet); len(made) != 2 {
			t.Errorf("%d machines were created", len(made))
		}
		w.quiet(time.Hour)
		w.removed()
	})
}

package server

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/clients"
)

var (
	capiClusters  = clusterAPI.WithResource("clusters")
	capiMachines  = clusterAPI.WithResource("machines")
	driverHosts   = machineAPI.WithResource("digitaloceanmachines")
	rkeBootstraps = rkev1.SchemeGroupVersion.WithResource("rkebootstraps")
)

// stuck returns the number of machines for each reason that the metrics show.
func (w *world) stuck() map[string]float64 {
	w.Helper()
	families, err := w.metrics.Gather()
	check(w.T, err)
	out := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if labels := metric.GetLabel(); family.GetName() == "drover_stuck_objects" &&
				labels[0].GetValue() == "Machine" {
				out[labels[1].GetValue()] = metric.GetGauge().GetValue()
			}
		}
	}
	return out
}

// patch applies a merge patch to an object.
func (w *world) patch(of schema.GroupVersionResource, name, merge string) {
	w.Helper()
	_, err := w.live.Resource(of).Namespace(fleet).Patch(w.Context(), name, types.MergePatchType, []byte(merge),
		metav1.PatchOptions{})
	check(w.T, err)
}

// worker returns a worker Machine without etcd that is not being deleted.
func (w *world) worker() *unstructured.Unstructured {
	w.Helper()
	for _, machine := range w.objects("Machine") {
		if machine.GetLabels()[rkev1.WorkerRoleLabel] != "" && machine.GetLabels()[rkev1.EtcdRoleLabel] == "" &&
			machine.GetDeletionTimestamp() == nil {
			return machine
		}
	}
	w.Fatalf("there is no worker\n%s", w.picture())
	return nil
}

// The metrics show a deleted machine as paused while a pause holds it, whichever object has the pause.
func TestStory_MetricsTellOfPauses(t *testing.T) {
	const mark, unmark = `{"metadata":{"annotations":{%q:"true"}}}`, `{"metadata":{"annotations":{%q:null}}}`
	tell(t, func(w *world) {
		w.start()
		w.apply(k3s, w.servers(1, 1))
		w.until("the cluster", 5*time.Minute, w.ready(2))
		for name, paused := range map[string]struct {
			of         schema.GroupVersionResource
			object     func(machine *unstructured.Unstructured) string
			begin, end string
		}{
			"the host": {driverHosts, func(machine *unstructured.Unstructured) string {
				host, _, _ := unstructured.NestedString(machine.Object, "spec", "infrastructureRef", "name")
				return host
			}, fmt.Sprintf(mark, clusterv1.PausedAnnotation), fmt.Sprintf(unmark, clusterv1.PausedAnnotation)},
			"the cluster": {capiClusters, func(*unstructured.Unstructured) string { return demo },
				`{"spec":{"paused":true}}`, `{"spec":{"paused":null}}`},
		} {
			machine := w.worker()
			object := paused.object(machine)
			w.patch(paused.of, object, paused.begin)
			time.Sleep(time.Second)
			check(t, w.live.Resource(capiMachines).Namespace(fleet).Delete(w.Context(), machine.GetName(),
				metav1.DeleteOptions{}))
			time.Sleep(10 * time.Minute)
			if got := w.stuck(); got["Paused"] != 1 || got["Deleting"] != 0 {
				t.Errorf("%s is paused: machines by reason %v", name, got)
			}
			w.patch(paused.of, object, paused.end)
			w.until("the end of the deleted machine", 20*time.Minute, func() string {
				if slices.ContainsFunc(w.objects("Machine"), func(left *unstructured.Unstructured) bool {
					return left.GetUID() == machine.GetUID()
				}) {
					return "it still exists"
				}
				return ""
			})
			w.until("the cluster after the pause of "+name, 20*time.Minute, w.ready(2))
			if got := w.stuck(); len(got) != 0 {
				t.Errorf("%s was paused: machines by reason %v", name, got)
			}
		}
	})
}

// The objects that machines refer to are found in caches: their RKEBootstraps, and the hosts of node drivers.
func TestSource_Annotations(t *testing.T) {
	tell(t, func(w *world) {
		w.start()
		w.apply(k3s, w.servers(1, 1))
		w.until("the cluster", 5*time.Minute, w.ready(2))
		c, err := clients.New(w.api.Config("ignored"), clients.Options{Version: "test"})
		check(t, err)
		defer c.Stop()
		of := source(c, "test", "dev").Annotations
		check(t, c.Start(w.Context()))
		list, err := w.user.CAPI.Machine().List(fleet, metav1.ListOptions{})
		check(t, err)
		spec := list.Items[0].Spec
		w.patch(driverHosts, spec.InfrastructureRef.Name, `{"metadata":{"annotations":{"is":"host"}}}`)
		w.patch(rkeBootstraps, spec.Bootstrap.ConfigRef.Name, `{"metadata":{"annotations":{"is":"bootstrap"}}}`)
		time.Sleep(time.Second)
		missing, foreign := spec.InfrastructureRef, spec.InfrastructureRef
		missing.Name, foreign.APIGroup = "none", "infrastructure.cluster.x-k8s.io"
		for want, ref := range map[string]clusterv1.ContractVersionedObjectReference{"host": spec.InfrastructureRef,
			"bootstrap": spec.Bootstrap.ConfigRef} {
			if got := of(fleet, ref)["is"]; got != want {
				t.Errorf("the source does not find the %s: %q", want, got)
			}
		}
		if of(fleet, missing) != nil || of(fleet, foreign) != nil {
			t.Error("the source finds a missing object")
		}
	})
}

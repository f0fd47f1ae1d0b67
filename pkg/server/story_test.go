package server

import (
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
)

const k3s = "v1.36.2+k3s1"

var (
	clusterAPI = clusterv1.GroupVersion
	machineAPI = schema.GroupVersion{Group: "rke-machine.cattle.io", Version: "v1"}
)

func shown() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		provv1.SchemeGroupVersion.WithKind("Cluster"), rkev1.SchemeGroupVersion.WithKind("RKEControlPlane"),
		rkev1.SchemeGroupVersion.WithKind("RKECluster"),
		clusterAPI.WithKind("Cluster"), clusterAPI.WithKind("MachineDeployment"), clusterAPI.WithKind("MachineSet"),
		clusterAPI.WithKind("Machine"),
		machineAPI.WithKind("DigitaloceanMachine"), rkev1.SchemeGroupVersion.WithKind("RKEBootstrap"),
		batchv1.SchemeGroupVersion.WithKind("Job"),
	}
}

// servers returns the pools of most stories: servers and workers.
func (w *world) servers(servers, workers int32) func() []provv1.RKEMachinePool {
	return func() []provv1.RKEMachinePool {
		return []provv1.RKEMachinePool{w.pool("server", "ec", servers), w.pool("worker", "w", workers)}
	}
}

// quiet fails if Drover writes anything while nothing happens.
func (w *world) quiet(d time.Duration) {
	w.Helper()
	w.api.ResetLog()
	time.Sleep(d)
	synctest.Wait()
	for _, write := range w.api.Writes(ours) {
		w.Errorf("a settled cluster causes writes: %v", write)
	}
}

// installs returns how often the distribution was installed or restarted on each machine.
func (w *world) installs() map[string]int {
	counts := map[string]int{}
	for name, m := range w.hosts.Machines(fleet) {
		counts[name] = m.Installs
	}
	return counts
}

// joined returns the server that each machine is joined to, by machine name.
func (w *world) joined() map[string]string {
	w.Helper()
	list, err := w.user.CAPI.Machine().List(fleet, metav1.ListOptions{})
	check(w.T, err)
	servers := map[string]string{}
	for i := range list.Items {
		servers[list.Items[i].Name] = list.Items[i].Annotations[rkev1.JoinedToAnnotation]
	}
	return servers
}

// A cluster is created, rests, is scaled and is deleted completely, wherever the process is killed.
func TestStory_LifeOfACluster(t *testing.T) {
	crashpoints.Each(t, 3, func(t *testing.T, n int) (writes int) {
		t.Helper()
		tell(t, func(w *world) {
			w.start()
			began := time.Now()
			w.apply(k3s, w.servers(1, 2))
			w.until("the cluster", 5*time.Minute, w.ready(3))
			t.Logf("ready after %s of virtual time and %d writes", time.Since(began), len(w.api.Writes(ours)))
			time.Sleep(time.Minute)
			w.quiet(time.Hour)
			made := w.installs()

			w.killAfter(n)
			w.edit(func(c *provv1.Cluster) { *c.Spec.RKEConfig.MachinePools[1].Quantity = 4 })
			w.until("two more workers", 10*time.Minute, w.ready(5))
			w.edit(func(c *provv1.Cluster) { *c.Spec.RKEConfig.MachinePools[1].Quantity = 1 })
			w.until("three fewer workers", 10*time.Minute, w.ready(2))
			if n := len(w.hosts.Machines(fleet)); n != 2 {
				t.Errorf("%d machines remain in the cloud, want 2", n)
			}
			for name, n := range w.installs() {
				if was, old := made[name]; old && n != was {
					t.Errorf("machine %s was restarted by changes of other machines", name)
				}
			}
			w.removed()
			writes = w.api.Written(ours)
		})
		return writes
	})
}

// removed deletes the cluster and fails if any of its objects remains.
func (w *world) removed() {
	w.Helper()
	check(w.T, w.user.Provisioning.Cluster().Delete(fleet, demo, &metav1.DeleteOptions{}))
	w.until("the deletion", 10*time.Minute, func() string {
		left := w.api.Objects(provv1.SchemeGroupVersion.WithKind("Cluster"))
		if len(left) > 0 {
			return "the cluster still exists"
		}
		return ""
	})
	time.Sleep(time.Minute)
	synctest.Wait()
	for _, gvk := range append(shown(), corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
		rkev1.SchemeGroupVersion.WithKind("RKEBootstrapTemplate"),
		machineAPI.WithKind("DigitaloceanMachineTemplate"), schema.GroupVersionKind{Group: "management.cattle.io",
			Version: "v3", Kind: "Cluster"}) {
		for _, u := range w.api.Objects(gvk) {
			w.Errorf("remaining: %s %s/%s", u.GetKind(), u.GetNamespace(), u.GetName())
		}
	}
	for _, secret := range w.api.Objects(corev1.SchemeGroupVersion.WithKind("Secret")) {
		// The user's credential, and Drover's own key.
		if name := secret.GetName(); name != "cc-demo" && name != "drover-grants" {
			w.Errorf("remaining: Secret %s/%s", secret.GetNamespace(), secret.GetName())
		}
	}
	if n := len(w.hosts.Machines(fleet)); n != 0 {
		w.Errorf("%d machines remain in the cloud", n)
	}
}

// killAfter kills Drover after its n-th write from now, and starts another process. When n is 0, it kills nothing.
func (w *world) killAfter(n int) {
	w.Helper()
	killed := make(chan struct{})
	if n > 0 {
		w.api.CutAfter(ours, n, func() { close(killed) })
	}
	if w.lead == nil {
		w.start()
	}
	go func() {
		select {
		case <-killed:
			w.stop()
			w.api.Mend(ours)
			w.start()
		case <-w.Context().Done():
		}
	}()
}

// Three etcd members join and leave one at a time, wherever the process is killed.
func TestStory_ThreeServers(t *testing.T) {
	crashpoints.Each(t, 3, func(t *testing.T, n int) (writes int) {
		t.Helper()
		tell(t, func(w *world) {
			w.killAfter(n)
			w.apply(k3s, w.servers(3, 1))
			w.until("the cluster", 10*time.Minute, w.ready(4))
			made, before := w.installs(), w.joined()
			w.edit(func(c *provv1.Cluster) { *c.Spec.RKEConfig.MachinePools[0].Quantity = 1 })
			w.until("two fewer servers", 10*time.Minute, w.ready(2))
			after := w.joined()
			for name, n := range w.installs() {
				// A machine whose server is removed has to join another.
				if moved := before[name] != after[name]; n != made[name] && !moved {
					t.Errorf("machine %s, joined to %q, was restarted by the removal of others", name, after[name])
				}
			}
			w.removed()
			writes = w.api.Written(ours)
		})
		return writes
	})
}

// A process that is killed after any of its writes and started again reaches the same end.
func TestStory_KilledAfterAnyWrite(t *testing.T) {
	var want []string
	crashpoints.Each(t, 6, func(t *testing.T, n int) (writes int) {
		t.Helper()
		tell(t, func(w *world) {
			w.killAfter(n)
			w.apply(k3s, w.servers(1, 1))
			w.until("the cluster", 10*time.Minute, w.ready(2))
			got := inventory(w)
			if want == nil {
				want = got
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("objects after a kill (-without +with):\n%s", diff)
			}
			if n := len(w.hosts.Machines(fleet)); n != 2 {
				t.Errorf("%d machines were created, want 2", n)
			}
			writes = w.api.Written(ours)
		})
		return writes
	})
}

// A deleted cluster leaves nothing behind, including machines in the cloud, wherever the process is killed.
func TestStory_RemovalIsKilledAfterAnyWrite(t *testing.T) {
	crashpoints.SkipRaced(t)
	crashpoints.Each(t, 6, func(t *testing.T, n int) (writes int) {
		t.Helper()
		tell(t, func(w *world) {
			w.start()
			w.apply(k3s, w.servers(1, 1))
			w.until("the cluster", 5*time.Minute, w.ready(2))
			time.Sleep(time.Minute)
			w.api.ResetLog()
			w.killAfter(n)
			w.removed()
			writes = w.api.Written(ours)
		})
		return writes
	})
}

// inventory counts objects by kind.
func inventory(w *world) []string {
	counts := map[string]int{}
	for _, gvk := range append(shown(), corev1.SchemeGroupVersion.WithKind("Secret"),
		corev1.SchemeGroupVersion.WithKind("ServiceAccount")) {
		counts[gvk.Kind] += len(w.api.Objects(gvk))
	}
	var list []string
	for kind, n := range counts {
		list = append(list, kind+" "+strconv.Itoa(n))
	}
	slices.Sort(list)
	return list
}

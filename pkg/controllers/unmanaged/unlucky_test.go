package unmanaged_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// Incomplete objects of a host that never asks again are deleted with its cluster.
func TestStory_BegunAndNeverCompleted(t *testing.T) {
	tell(t, func(w *world) {
		w.api.Intercept(func(r memkube.Request) error {
			if r.Verb == "create" && r.Resource.Resource == "machines" {
				return apierrors.NewInternalError(errors.New("etcd is busy"))
			}
			return nil
		})
		w.ask(demo, role("worker"))
		w.pass(2 * time.Minute)
		w.answered(demo, "gone")
		w.custom()
		w.api.Intercept(nil)
		w.quiet(time.Hour)
		must(t, w.user.CAPI.Cluster().Delete(namespace, "demo", &metav1.DeleteOptions{}))
		w.pass(time.Minute)
		for _, gone := range []error{
			second(w.user.RKE.CustomMachine().Get(namespace, host, metav1.GetOptions{})),
			second(w.user.RKE.RKEBootstrap().Get(namespace, host, metav1.GetOptions{})),
		} {
			if !apierrors.IsNotFound(gone) {
				t.Errorf("some objects are left: %v", gone)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

// If another program creates objects with the host's names that no cache shows, those with the same identity are used
// and others are not.
func TestStory_ObjectsThatNoCacheShows(t *testing.T) {
	for name, tt := range map[string]struct{ id, want string }{
		"of the host":        {identity, ours + host},
		"of another program": {"another", "another object has the name"},
	} {
		t.Run(name, func(t *testing.T) {
			tell(t, func(w *world) {
				w.stop()
				w.api.Lag(agent, func(resource string) time.Duration {
					if resource == "rkebootstraps.rke.cattle.io" {
						return 4 * time.Second
					}
					return 0
				})
				w.start()
				must(t, w.api.Add(&rkev1.RKEBootstrap{
					TypeMeta: metav1.TypeMeta{APIVersion: rkev1.SchemeGroupVersion.String(), Kind: "RKEBootstrap"},
					ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: host,
						Labels: map[string]string{rkev1.MachineIDLabel: tt.id}},
					Spec: rkev1.RKEBootstrapSpec{ClusterName: "demo"},
				}))
				w.ask(demo, role("worker"))
				w.pass(20 * time.Second)
				w.answered(demo, tt.want)
			})
		})
	}
}

// Every refused write is retried.
func TestStory_RefusedWritesAreTriedAgain(t *testing.T) {
	tell(t, func(w *world) {
		var mu sync.Mutex
		refused := map[string]bool{}
		w.api.Intercept(func(r memkube.Request) error {
			mu.Lock()
			defer mu.Unlock()
			key := r.Verb + r.Resource.Resource + r.Subresource
			if !strings.HasPrefix(r.Agent, agent) || r.Verb != "create" && r.Verb != "update" && r.Verb != "delete" ||
				refused[key] {
				return nil
			}
			refused[key] = true
			return apierrors.NewInternalError(errors.New("etcd is busy"))
		})
		w.ask(demo, role("worker"))
		w.pass(30 * time.Second)
		w.answered(demo, ours+host)
		w.pass(time.Minute)
		w.answered(demo, "gone")
		if status := w.custom().Status; len(status.Conditions) != 1 || len(refused) != 6 {
			t.Errorf("status %+v, refused %v", status, refused)
		}
	})
}

// Hosts of paused clusters and of other instances' clusters are not written to until they may be.
func TestStory_CustomMachinesThatAreLeftAlone(t *testing.T) {
	custom := func(labels, annotations map[string]string) *rkev1.CustomMachine {
		return &rkev1.CustomMachine{
			TypeMeta:   metav1.TypeMeta{APIVersion: rkev1.SchemeGroupVersion.String(), Kind: "CustomMachine"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: host, Labels: labels, Annotations: annotations},
		}
	}
	of := map[string]string{clusterv1.ClusterNameLabel: "demo"}
	for name, tt := range map[string]struct {
		machine       *rkev1.CustomMachine
		before, after func(w *world)
	}{
		"of another instance": {custom(of, nil), func(w *world) { w.mark("they") }, func(w *world) {
			w.mark(instance)
		}},
		"of a paused cluster": {
			custom(of, nil), func(w *world) { w.patchCAPI(`{"spec":{"paused":true}}`) }, func(w *world) {
				w.patchCAPI(`{"spec":{"paused":null}}`)
			},
		},
		"paused": {custom(of, map[string]string{clusterv1.PausedAnnotation: ""}), func(*world) {}, func(w *world) {
			w.patchCustom(`{"metadata":{"annotations":null}}`)
		}},
		"of no cluster": {custom(nil, nil), func(*world) {}, func(w *world) {
			w.patchCustom(`{"metadata":{"labels":{"cluster.x-k8s.io/cluster-name":"demo"}}}`)
		}},
		"being deleted": {custom(of, map[string]string{}), func(*world) {}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			tell(t, func(w *world) {
				tt.before(w)
				w.pass(time.Second)
				if tt.after == nil {
					tt.machine.Finalizers = []string{"example.com/wait"}
					w.stop()
				}
				must(t, w.api.Add(tt.machine))
				if tt.after == nil {
					must(t, w.user.RKE.CustomMachine().Delete(namespace, host, &metav1.DeleteOptions{}))
					w.start()
				}
				w.pass(time.Minute)
				w.wrote()
				if tt.after == nil {
					return
				}
				tt.after(w)
				w.pass(time.Second)
				w.wrote("patch custommachines.rke.cattle.io", "update custommachines.rke.cattle.io/status")
				w.quiet(time.Hour)
			})
		})
	}
}

func (w *world) patchCustom(patch string) {
	w.Helper()
	_, err := w.user.RKE.CustomMachine().Patch(namespace, host, types.MergePatchType, []byte(patch))
	must(w.T, err)
}

// Many hosts at once, as after a scripted installation, cost five writes each, and one more for the request.
func TestStory_ManyHostsAtOnce(t *testing.T) {
	tell(t, func(w *world) {
		for i := range 50 {
			_, err := w.user.Core.Secret().Create(request(demo, fmt.Sprintf("host-%d", i), role("worker")))
			must(t, err)
		}
		w.pass(30 * time.Second)
		if machines := w.machines(); len(machines) != 50 {
			t.Errorf("%d machines", len(machines))
		}
		if n := len(w.writes()); n != 250 {
			t.Errorf("%d writes", n)
		}
		w.pass(time.Minute)
		if n := len(w.writes()); n != 50 {
			t.Errorf("%d writes for the end of 50 requests", n)
		}
	})
}

// A cluster limits hosts without a node until some have joined or are removed, which affects neither its known hosts
// nor other clusters.
func TestStory_TooManyHostsWithoutANode(t *testing.T) {
	tell(t, func(w *world) {
		made := func(i int) string {
			return naming.MachineRequest(naming.MachineRequestCustom, fmt.Sprintf("made-up-%d", i))
		}
		register := func(i int) {
			w.Helper()
			_, err := w.user.Core.Secret().Create(request(demo, fmt.Sprintf("made-up-%d", i), role("worker")))
			must(t, err)
			w.pass(100 * time.Millisecond)
		}
		for i := range 110 {
			register(i)
		}
		w.pass(time.Second)
		if machines := w.machines(); len(machines) != 100 {
			t.Fatalf("%d machines", len(machines))
		}
		const refusal = "100 hosts like this one have registered with this cluster and have no node yet; delete the " +
			"Machines of hosts that will not become nodes, or wait"
		w.ask(demo, role("worker"))
		w.pass(time.Second)
		w.answered(demo, refusal)
		if custom, err := w.user.RKE.CustomMachine().Get(namespace, host, metav1.GetOptions{}); !apierrors.IsNotFound(
			err) {
			t.Errorf("objects are created for a refused host: %v, %v", custom, err)
		}
		_, err := w.user.Core.Secret().Create(request(demo, "server", role("etcd")))
		must(t, err)
		w.pass(time.Second)
		if _, err := w.user.CAPI.Machine().Get(namespace, naming.MachineRequest(naming.MachineRequestCustom, "server"),
			metav1.GetOptions{}); err != nil {
			t.Errorf("a server, for which the workers wait, is refused: %v", err)
		}
		w.ask(other, role("worker"))
		w.pass(time.Second)
		if got := w.answer(other); got != tenant+"/"+host {
			t.Errorf("a host of another cluster gets the answer %q", got)
		}
		w.pass(2 * time.Minute)

		register(0) // a known host
		known, err := w.user.Core.Secret().Get(demo, made(0), metav1.GetOptions{})
		must(t, err)
		if known.Labels[rkev1.MachineNameLabel] != made(0) {
			t.Errorf("a known host gets the answers %v and %v", known.Labels, known.Annotations)
		}
		for i, leave := range []func() error{
			func() error {
				machine, err := w.user.CAPI.Machine().Get(namespace, made(1), metav1.GetOptions{})
				must(t, err)
				machine.Status.NodeRef.Name = "edge-1"
				return second(w.user.CAPI.Machine().UpdateStatus(machine))
			},
			func() error { return w.user.CAPI.Machine().Delete(namespace, made(2), &metav1.DeleteOptions{}) },
		} {
			next := 200 + i
			register(next)
			refused, err := w.user.Core.Secret().Get(demo, made(next), metav1.GetOptions{})
			must(t, err)
			if got := refused.Annotations[rkev1.RegistrationRefusedAnnotation]; got != refusal {
				t.Errorf("host %d gets the answer %q", next, got)
			}
			must(t, leave())
			w.pass(time.Second)
			if _, err := w.user.CAPI.Machine().Get(namespace, made(next), metav1.GetOptions{}); err != nil {
				t.Errorf("host %d is refused below the limit: %v", next, err)
			}
		}
	})
}

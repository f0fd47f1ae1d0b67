package unmanaged_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

const ours = namespace + "/"

func TestStory_HostBecomesAMachine(t *testing.T) {
	tell(t, func(w *world) {
		flags := map[string]string{"role-etcd": "true", "role-control-plane": "true", "node-name": "edge-1",
			"address": "203.0.113.7", "labels": "site=north"}
		w.ask(demo, flags)
		w.pass(time.Second)
		w.answered(demo, ours+host)
		w.wrote("create rkebootstraps.rke.cattle.io", "create custommachines.rke.cattle.io",
			"create machines.cluster.x-k8s.io",
			"update secrets", "update custommachines.rke.cattle.io/status")
		machines := w.machines()
		if len(machines) != 1 || machines[0].Labels[rkev1.EtcdRoleLabel] != "true" ||
			machines[0].Labels[rkev1.MachineIDLabel] != identity {
			t.Errorf("the machines are %v", machines)
		}
		if status := w.custom().Status; len(status.Conditions) != 1 || status.Conditions[0].Status != "True" ||
			status.Ready || status.Initialization.Provisioned != nil {
			t.Errorf("a host without a node: %+v", status)
		}
		if log := w.log.String(); !strings.Contains(log, "Told a host that it is Machine "+ours+host) {
			t.Error(log)
		}

		w.askAgain(demo, role("worker")) // a host that asks again is the same, and keeps its roles
		w.pass(time.Second)
		w.answered(demo, ours+host)
		w.wrote("update secrets")
		if machines := w.machines(); len(machines) != 1 || machines[0].Labels[rkev1.WorkerRoleLabel] != "" {
			t.Errorf("the machines are %v", machines)
		}
		w.pass(time.Minute)
		w.answered(demo, "gone")
		w.wrote("delete secrets")

		_, err := w.user.RKE.CustomMachine().Patch(namespace, host, types.MergePatchType,
			[]byte(`{"spec":{"providerID":"k3s://edge-1"}}`))
		must(t, err)
		w.pass(time.Second)
		w.wrote("update custommachines.rke.cattle.io/status")
		if status := w.custom().Status; !status.Ready || status.Initialization.Provisioned == nil ||
			!*status.Initialization.Provisioned {
			t.Errorf("a host with a node: %+v", status)
		}
		w.ask(demo, map[string]string{}) // a reinstalled agent sends no roles
		w.pass(time.Second)
		w.answered(demo, ours+host)
		w.quiet(30 * time.Second)
		w.stop()
		w.pass(time.Hour) // no process deletes the request in time
		w.start()
		w.pass(30 * time.Second)
		w.answered(demo, ours+host) // the new process first saw it recently
		w.pass(31 * time.Second)
		w.answered(demo, "gone")
		if log := w.log.String(); strings.Contains(log, "without an answer") {
			t.Error(log)
		}
		w.quiet(time.Hour)
	})
}

// A request is answered before it is deleted, and deleted after a minute, whatever the clocks say.
func TestStory_ClocksThatDiffer(t *testing.T) {
	for name, skew := range map[string]time.Duration{"ahead": 10 * time.Minute, "behind": -10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			tell(t, func(w *world) {
				w.stop()
				w.skew = skew
				w.start()
				w.ask(demo, role("worker"))
				w.pass(50 * time.Second)
				w.answered(demo, ours+host)
				w.pass(11 * time.Second)
				w.answered(demo, "gone")
				if machines := w.machines(); len(machines) != 1 {
					t.Errorf("the machines are %v", machines)
				}
			})
		})
	}
}

// A request that cannot be answered is deleted and logged each time the host asks, and a restarted process answers
// waiting requests.
func TestStory_RequestWithoutAnAnswer(t *testing.T) {
	tell(t, func(w *world) {
		w.patchCAPI(`{"spec":{"paused":true}}`)
		w.pass(time.Second)
		for n := range 2 {
			w.ask(demo, role("worker"))
			w.pass(59 * time.Second)
			w.answered(demo, "")
			w.pass(2 * time.Second)
			w.answered(demo, "gone")
			if told := strings.Count(w.log.String(), "without an answer after 1m0s"); told != n+1 {
				t.Errorf("logged %d times: %s", told, w.log)
			}
		}
		w.stop()
		w.ask(demo, role("worker"))
		w.patchCAPI(`{"spec":{"paused":null}}`)
		w.pass(10 * time.Minute)
		w.start()
		w.pass(time.Second)
		w.answered(demo, ours+host)
	})
}

// Two hosts with one identity file, such as copies of a disk, share one request and one Machine, whichever comes first.
func TestStory_TwoHostsWithOneIdentityAreOneMachine(t *testing.T) {
	tell(t, func(w *world) {
		var together sync.WaitGroup
		var refused error
		for _, node := range []string{"edge-1", "edge-2"} {
			together.Go(func() {
				_, err := w.user.Core.Secret().Create(request(demo, identity,
					map[string]string{"role-worker": "true", "node-name": node}))
				if err != nil {
					refused = err
				}
			})
		}
		together.Wait()
		if !apierrors.IsAlreadyExists(refused) {
			t.Fatalf("two requests for one identity: %v", refused)
		}
		w.askAgain(demo, map[string]string{"role-worker": "true", "node-name": "edge-3"})
		w.pass(time.Second)
		w.answered(demo, ours+host)
		must(t, w.user.Core.Secret().Delete(demo, host, &metav1.DeleteOptions{}))
		w.ask(demo, map[string]string{"role-etcd": "true", "node-name": "edge-4"})
		w.pass(time.Second)
		w.answered(demo, ours+host)
		if machines := w.machines(); len(machines) != 1 {
			t.Errorf("%d machines", len(machines))
		}
	})
}

// One identity that registers with two clusters at once becomes one machine, even if the caches are late.
func TestStory_OneIdentityInTwoClustersIsOneMachine(t *testing.T) {
	tell(t, func(w *world) {
		w.stop()
		w.api.Lag(agent, func(resource string) time.Duration {
			if resource == "secrets" {
				return 0
			}
			return 3 * time.Second
		})
		w.start()
		w.pass(5 * time.Second)
		w.ask(demo, role("worker"))
		w.ask(other, role("worker"))
		w.pass(30 * time.Second)
		refused := 0
		for _, in := range []string{demo, other} {
			if strings.Contains(w.answer(in), "a machine of another cluster") {
				refused++
			}
		}
		machines := w.machines()
		if len(machines) != 1 || refused != 1 {
			t.Fatalf("%d machines, %d refused: %q, %q", len(machines), refused, w.answer(demo), w.answer(other))
		}
		w.pass(time.Minute)
		w.ask(demo, role("worker"))
		w.ask(other, role("worker"))
		w.pass(30 * time.Second)
		if len(w.machines()) != 1 {
			t.Errorf("the machines are %v", w.machines())
		}
	})
}

// A request waits without an answer for missing objects and for decisions of users, and is then answered.
func TestStory_WaitsAndGoesOn(t *testing.T) {
	for name, tt := range map[string]struct{ before, after func(w *world) }{
		"a cluster without a CAPI Cluster yet": {
			func(w *world) { must(w.T, w.user.CAPI.Cluster().Delete(namespace, "demo", &metav1.DeleteOptions{})) },
			func(w *world) { must(w.T, w.api.Add(capi(namespace, "demo"))) },
		},
		"a paused cluster": {
			func(w *world) { w.patchCAPI(`{"spec":{"paused":true}}`) }, func(w *world) {
				w.patchCAPI(`{"spec":{"paused":null}}`)
			},
		},
		"a cluster of another instance": {func(w *world) { w.mark("they") }, func(w *world) { w.mark(instance) }},
	} {
		t.Run(name, func(t *testing.T) {
			tell(t, func(w *world) {
				tt.before(w)
				w.pass(time.Second)
				w.ask(demo, role("worker"))
				w.pass(30 * time.Second)
				w.answered(demo, "")
				w.wrote()
				tt.after(w)
				w.pass(time.Second)
				w.answered(demo, ours+host)
			})
		})
	}
}

func (w *world) patchCAPI(patch string) {
	w.Helper()
	_, err := w.user.CAPI.Cluster().Patch(namespace, "demo", types.MergePatchType, []byte(patch))
	must(w.T, err)
}

func (w *world) mark(instance string) {
	w.Helper()
	_, err := w.user.Provisioning.Cluster().Patch(namespace, "demo", types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, rkev1.InstanceAnnotation, instance))
	must(w.T, err)
}

func TestStory_RequestsOfOthersAreLeftAlone(t *testing.T) {
	tell(t, func(w *world) {
		w.mark("they")
		w.pass(time.Second)
		w.ask(demo, role("worker"))
		strangers := request(other, "x", nil)
		strangers.Type, strangers.Name = corev1.SecretTypeOpaque, "custom-0123456789ab"
		must(t, w.api.Add(strangers))
		w.pass(time.Hour)
		w.answered(demo, "")
		w.wrote()
	})
}

// A refused host that changes its request gets a new answer, and the old one is removed while the new request cannot be
// answered.
func TestStory_RefusedHostSaysSomethingElse(t *testing.T) {
	tell(t, func(w *world) {
		w.ask(demo, map[string]string{"labels": "kubernetes.io/x=y"})
		w.pass(time.Second)
		for _, part := range []string{"a role is missing", "--label"} {
			w.answered(demo, part)
		}
		w.wrote("update secrets")
		w.patchCAPI(`{"spec":{"paused":true}}`)
		w.pass(time.Second)
		w.askAgain(demo, role("worker"))
		w.pass(time.Second)
		w.answered(demo, "")
		w.patchCAPI(`{"spec":{"paused":null}}`)
		w.pass(time.Second)
		w.answered(demo, ours+host)
		if got := w.answer(demo); got != ours+host {
			t.Errorf("the old refusal still exists: %q", got)
		}
	})
}

// A host that returns while its Machine is still being deleted is refused until that is gone.
func TestStory_HostThatComesBackTooEarly(t *testing.T) {
	tell(t, func(w *world) {
		w.ask(demo, role("worker"))
		w.pass(time.Second)
		_, err := w.user.CAPI.Machine().Patch(namespace, host, types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":["example.com/drain"]}}`))
		must(t, err)
		must(t, w.user.CAPI.Machine().Delete(namespace, host, &metav1.DeleteOptions{}))
		must(t, w.user.Core.Secret().Delete(demo, host, &metav1.DeleteOptions{}))
		w.pass(time.Second)
		w.ask(demo, role("etcd"))
		w.pass(time.Second)
		w.answered(demo, "is being deleted")
		must(t, w.user.RKE.RKEBootstrap().Delete(namespace, host, &metav1.DeleteOptions{}))
		must(t, w.user.RKE.CustomMachine().Delete(namespace, host, &metav1.DeleteOptions{}))
		_, err = w.user.CAPI.Machine().Patch(namespace, host, types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`))
		must(t, err)
		w.pass(time.Second)
		w.answered(demo, ours+host)
		if machines := w.machines(); len(machines) != 1 || machines[0].Labels[rkev1.EtcdRoleLabel] == "" {
			t.Errorf("the machines are %v", machines)
		}
	})
}

// A deleted Machine is not recreated, even if the request of its host still exists.
func TestStory_DeletedMachineIsNotMadeAgainByItself(t *testing.T) {
	tell(t, func(w *world) {
		w.ask(demo, role("worker"))
		w.pass(time.Second)
		must(t, w.user.CAPI.Machine().Delete(namespace, host, &metav1.DeleteOptions{}))
		w.pass(30 * time.Second)
		w.stop()
		w.start()
		w.pass(10 * time.Second)
		if machines := w.machines(); len(machines) > 0 {
			t.Errorf("the machines are %v", machines)
		}
	})
}

// A deleted CustomMachine loses the finalizer that Rancher set, if Drover manages its cluster. It keeps others.
func TestStory_DeletedHostLosesTheFinalizerOfRancher(t *testing.T) {
	for name, tc := range map[string]struct {
		mark  string
		wants []string
	}{
		"an own cluster":           {instance, []string{"example.com/guard"}},
		"a cluster of another one": {"another", []string{"wrangler.cattle.io/unmanaged-machine", "example.com/guard"}},
		"a cluster without a mark": {"", []string{"wrangler.cattle.io/unmanaged-machine", "example.com/guard"}},
	} {
		t.Run(name, func(t *testing.T) {
			tell(t, func(w *world) {
				w.ask(demo, role("worker"))
				w.pass(2 * time.Minute)
				_, err := w.user.RKE.CustomMachine().Patch(namespace, host, types.MergePatchType, []byte(
					`{"metadata":{"finalizers":["wrangler.cattle.io/unmanaged-machine","example.com/guard"]}}`))
				must(t, err)
				_, err = w.user.Provisioning.Cluster().Patch(namespace, "demo", types.MergePatchType,
					[]byte(`{"metadata":{"annotations":{"drover.io/instance":"`+tc.mark+`"}}}`))
				must(t, err)
				w.quiet(time.Minute)
				must(t, w.user.RKE.CustomMachine().Delete(namespace, host, &metav1.DeleteOptions{}))
				w.pass(time.Minute)
				if diff := cmp.Diff(tc.wants, w.custom().Finalizers); diff != "" {
					t.Errorf("finalizers (-want +got):\n%s", diff)
				}
				w.quiet(time.Hour)
			})
		})
	}
}

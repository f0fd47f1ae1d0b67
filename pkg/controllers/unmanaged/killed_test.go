package unmanaged_test

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/registration"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// A host is refused, changes its request, and becomes a machine and then a node, wherever the process is killed.
func TestStory_HostWhereverTheProcessIsKilled(t *testing.T) {
	t.Parallel()
	var want []any
	crashpoints.Each(t, 12, func(t *testing.T, n int) (writes int) {
		t.Helper()
		var got []any
		inWorld(t, func(w *world) {
			look := func() {
				var objects []*unstructured.Unstructured
				for _, gvk := range []schema.GroupVersionKind{
					corev1.SchemeGroupVersion.WithKind("Secret"), rkev1.SchemeGroupVersion.WithKind("RKEBootstrap"),
					rkev1.SchemeGroupVersion.WithKind("CustomMachine"), clusterv1.GroupVersion.WithKind("Machine"),
				} {
					objects = append(objects, w.api.Objects(gvk)...)
				}
				got = append(got, crashpoints.Bare(objects))
			}
			if n > 0 {
				w.cut = make(chan struct{})
				w.api.CutAfter(agent, n, func() { close(w.cut) })
			}
			w.ask(demo, map[string]string{"role-etcd": "yes"})
			w.pass(5 * time.Second)
			look()
			w.askAgain(demo, map[string]string{"role-etcd": "true", "node-name": "edge-1", "taints": "a=b:NoExecute"})
			w.pass(5 * time.Second)
			look()
			_, err := w.user.RKE.CustomMachine().Patch(namespace, host, types.MergePatchType,
				[]byte(`{"spec":{"providerID":"k3s://edge-1"}}`))
			must(t, err)
			w.pass(5 * time.Second)
			look()
			w.pass(time.Minute)
			writes = w.api.Written(agent)
			w.pass(time.Minute) // restarts the controller if it was killed at the very end
			look()
			w.quiet(time.Hour)
		})
		if want == nil {
			want = got
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("killed after write %d, the outcome differs (-never killed +killed):\n%s", n, diff)
		}
		return writes
	})
}

// server and agentOnly are two sets of flags of one host.
var (
	server = map[string]string{"role-etcd": "true", "role-control-plane": "true", "role-worker": "true",
		"labels": "site=north", "taints": "a=b:NoExecute"}
	agentOnly = map[string]string{"role-worker": "true", "labels": "rack=1", "address": "203.0.113.7"}
)

// A host that asks again with other flags before its Machine is created gets the last ones, wherever the process is
// killed.
func TestStory_HostSaysSomethingElseWhereverTheProcessIsKilled(t *testing.T) {
	t.Parallel()
	for name, reword := range map[string]func(w *world){
		"the same request": func(w *world) { w.askAgain(demo, agentOnly) },
		"another request": func(w *world) {
			must(w.T, w.user.Core.Secret().Delete(demo, host, &metav1.DeleteOptions{}))
			w.ask(demo, agentOnly)
		},
		"back, and again": func(w *world) {
			w.askAgain(demo, agentOnly)
			w.pass(2 * time.Second)
			w.askAgain(demo, server)
			w.pass(2 * time.Second)
			w.askAgain(demo, agentOnly)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crashpoints.Each(t, 12, func(t *testing.T, n int) (writes int) {
				t.Helper()
				inWorld(t, func(w *world) {
					if n > 0 {
						w.cut = make(chan struct{})
						w.api.CutAfter(agent, n, func() { close(w.cut) })
					}
					w.api.Intercept(quota)
					w.ask(demo, server)
					w.pass(3 * time.Second)
					reword(w)
					w.pass(3 * time.Second)
					w.api.Intercept(nil)
					// This triggers the next attempt at once.
					w.patchCAPI(`{"metadata":{"annotations":{"example.com/quota":"raised"}}}`)
					w.pass(10 * time.Second)
					writes = w.api.Written(agent)
					w.answered(demo, ours+host)
					w.saysOf(agentOnly)
				})
				return writes
			})
		})
	}
}

// A host that changes its request after the process was killed keeps its Machine if that was created, and otherwise
// gets all of its new request.
func TestStory_HostSaysSomethingElseBeforeTheProcessThatWasKilledIsReplaced(t *testing.T) {
	t.Parallel()
	crashpoints.Each(t, 12, func(t *testing.T, n int) (writes int) {
		t.Helper()
		inWorld(t, func(w *world) {
			if n > 0 {
				w.api.CutAfter(agent, n, func() {})
			}
			w.ask(demo, server)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			words := agentOnly
			if len(w.machines()) > 0 {
				words = server
			}
			w.askAgain(demo, agentOnly)
			w.stop()
			w.api.Mend(agent)
			w.start()
			w.pass(30 * time.Second)
			writes = w.api.Written(agent)
			w.answered(demo, ours+host)
			w.saysOf(words)
		})
		return writes
	})
}

// The result is the same if caches that lag differently hide objects of the earlier request.
func TestStory_HostSaysSomethingElseAndWatchesThatLag(t *testing.T) {
	t.Parallel()
	const slow, fast = 3 * time.Second, 0
	for name, lag := range map[string]map[string]time.Duration{
		"Machines":       {"machines.cluster.x-k8s.io": slow},
		"RKEBootstraps":  {"rkebootstraps.rke.cattle.io": slow},
		"CustomMachines": {"custommachines.rke.cattle.io": slow},
		"both halves": {"rkebootstraps.rke.cattle.io": slow, "custommachines.rke.cattle.io": slow,
			"machines.cluster.x-k8s.io": fast},
	} {
		for when, after := range map[string]time.Duration{"at once": 0, "a second later": time.Second,
			"four seconds later": 4 * time.Second} {
			for holds, intercept := range map[string]func(memkube.Request) error{"created": nil,
				"refused at first": quota} {
				t.Run(name+" "+when+" "+holds, func(t *testing.T) {
					tell(t, func(w *world) {
						w.stop()
						w.api.Lag(agent, func(resource string) time.Duration { return lag[resource] })
						w.start()
						w.pass(5 * time.Second)
						w.api.Intercept(intercept)
						words := []map[string]string{server, agentOnly, server, agentOnly}
						for i, said := range words {
							if i == 0 {
								w.ask(demo, said)
							} else {
								w.askAgain(demo, said)
							}
							w.pass(after + time.Millisecond)
						}
						w.api.Intercept(nil)
						w.pass(30 * time.Second)
						w.answered(demo, ours+host)
						if intercept != nil {
							w.saysOf(agentOnly)
						} else {
							w.saysOf(server)
						}
					})
				})
			}
		}
	}
}

// quota refuses Machines.
func quota(r memkube.Request) error {
	if r.Verb == "create" && r.Resource.Resource == "machines" && strings.HasPrefix(r.Agent, agent) {
		return apierrors.NewForbidden(r.Resource.GroupResource(), r.Name, errors.New("exceeded quota"))
	}
	return nil
}

// saysOf fails if an object of the host does not match the flags.
func (w *world) saysOf(said map[string]string) {
	w.Helper()
	parsed, err := registration.ParseRequest(request(demo, identity, said))
	must(w.T, err)
	want, err := parsed.Machine(namespace, "demo")
	must(w.T, err)
	bootstrap, err := w.user.RKE.RKEBootstrap().Get(namespace, host, metav1.GetOptions{})
	must(w.T, err)
	machines := w.machines()
	if len(machines) != 1 {
		w.Fatalf("%d machines", len(machines))
	}
	for _, object := range []struct {
		got, want metav1.Object
	}{{bootstrap, want.Bootstrap}, {w.custom(), want.Custom}, {&machines[0], want.Machine}} {
		if diff := cmp.Diff(object.want.GetLabels(), object.got.GetLabels()); diff != "" {
			w.Errorf("labels of %T (-want +got):\n%s", object.got, diff)
		}
		if got := object.got.GetAnnotations(); !maps.Equal(object.want.GetAnnotations(), got) {
			w.Errorf("annotations of %T: %v, want %v", object.got, got, object.want.GetAnnotations())
		}
		if len(object.got.GetOwnerReferences()) != 1 && object.got != metav1.Object(&machines[0]) {
			w.Errorf("owners of %T: %v", object.got, object.got.GetOwnerReferences())
		}
	}
}

package bootstrap_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
)

// retell runs part once without a kill, and then again for several points at which the process is killed and restarted.
// before runs first. At the end, the API and the nodes must be the same in all runs, and nothing more is written.
func retell(t *testing.T, most int, before, part func(t *testing.T, w *world)) {
	t.Helper()
	var want map[string]any
	crashpoints.Each(t, most, func(t *testing.T, n int) (writes int) {
		t.Helper()
		tell(t, func(t *testing.T, w *world) {
			before(t, w)
			w.killAfter(n)
			part(t, w)
			writes = w.api.Written(manager)
			w.elapse(time.Minute) // restarts the controller if it was killed at the very end
			w.wantQuiet(10 * time.Minute)
			got := w.objects()
			if want == nil {
				want = got
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("killed after write %d, the outcome differs (-never killed +killed):\n%s", n, diff)
			}
		})
		return writes
	})
}

// objects returns every object that the process writes, without what differs between runs.
func (w *world) objects() map[string]any {
	w.Helper()
	var objects []*unstructured.Unstructured
	for _, gvk := range append(madeKinds(), rkev1.SchemeGroupVersion.WithKind("RKEBootstrap"),
		clusterv1.GroupVersion.WithKind("Machine")) {
		objects = append(objects, w.api.Objects(gvk)...)
	}
	out := crashpoints.Bare(objects)
	nodes, err := w.down.nodes.CoreV1().Nodes().List(w.Context(), metav1.ListOptions{})
	must(w.T, err)
	for i := range nodes.Items {
		out["Node "+nodes.Items[i].Name] = nodes.Items[i].Annotations
	}
	return out
}

// nothing is the before of a test that starts empty.
func nothing(*testing.T, *world) {}

// introduces acts as a machine's install script: it retries until it gets an answer, and must never be refused
// permanently.
func (w *world) introduces(name, id string) connection {
	w.Helper()
	for range 60 {
		token := tokenInScript.FindStringSubmatch(w.data(name))
		if token == nil {
			w.Fatal("no token in the script")
		}
		code, answer := introduceAs(w.T, w.served, token[1], id)
		switch code {
		case http.StatusOK:
			return answer
		case http.StatusInternalServerError, http.StatusServiceUnavailable:
			w.elapse(5 * time.Second)
		default:
			w.Fatalf("the endpoint answers machine %s with %d", name, code)
		}
	}
	w.Fatalf("the endpoint never answers machine %s", name)
	return connection{}
}

// Each machine registers and gets its own agent connection, wherever the process is killed.
func TestStory_MachinesIntroduceThemselvesWhereverTheProcessIsKilled(t *testing.T) {
	names := []string{"m1", "m2"}
	var want map[string]any
	retell(t, 12, func(_ *testing.T, w *world) {
		w.serves = true
		w.restart()
	}, func(t *testing.T, w *world) {
		for _, name := range names {
			w.add(machine{name: name})
		}
		w.settle()
		for _, name := range names {
			for range 2 { // an answer may be lost
				answer := w.introduces(name, "id-of-"+name)
				token := w.secret(name + "-machine-plan-token").Data[corev1.ServiceAccountTokenKey]
				if answer.SecretName != name+"-machine-plan" || len(token) == 0 ||
					!strings.Contains(answer.KubeConfig, string(token)) {
					t.Errorf("%s gets plan Secret %s and a kubeconfig without its token", name, answer.SecretName)
				}
			}
			if code, _ := introduceAs(t, w.served, tokenInScript.FindStringSubmatch(w.data(name))[1],
				"id-of-another-owner"); code != http.StatusConflict {
				t.Errorf("the endpoint answers another identity with %d", code)
			}
			w.settle()
		}
		for _, name := range names {
			w.reports(name)
		}
		w.elapse(w.setup.ReusedTTL + time.Minute)
		got := map[string]any{"made": w.made()}
		for _, name := range names {
			token := w.secret(name + "-machine-bootstrap-token").Annotations
			got[name] = []any{
				w.machine(name).Labels, w.machine(name).Annotations, token[rkev1.LastAccessAnnotation] != "",
				token[rkev1.BootstrapTokenInvalidatedAnnotation],
			}
		}
		if want == nil {
			want = got
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the outcome differs (-never killed +killed):\n%s", diff)
		}
	})
}

// Deleted objects come back, and corrected input takes effect, wherever the process is killed.
func TestStory_CorrectionsWhereverTheProcessIsKilled(t *testing.T) {
	cases := map[string]struct{ before, part func(t *testing.T, w *world) }{
		"bad input is corrected": {
			func(_ *testing.T, w *world) {
				w.variables("demo", rkev1.EnvVar{Name: "no-proxy", Value: "a"})
				w.settle()
			},
			func(_ *testing.T, w *world) {
				w.add(machine{name: "m1"})
				w.settle()
				w.variables("demo", rkev1.EnvVar{Name: "NO_PROXY", Value: "a"})
				w.settle()
			},
		},
		"another infrastructure": {nothing, func(_ *testing.T, w *world) {
			w.add(machine{name: "m1", infraGroup: "infrastructure.cluster.x-k8s.io", userdata: "runcmd: [reboot]\n"})
			w.settle()
		}},
		"all objects are deleted": {func(_ *testing.T, w *world) {
			w.add(machine{name: "m1"})
			w.elapse(5 * time.Minute)
		}, func(t *testing.T, w *world) {
			must(t, w.c.RBAC.Role().Delete(namespace, "m1-machine-plan", nil))
			must(t, w.c.RBAC.RoleBinding().Delete(namespace, "m1-machine-plan", nil))
			must(t, w.c.Core.ServiceAccount().Delete(namespace, "m1-machine-plan", nil))
			must(t, w.c.Core.Secret().Delete(namespace, "m1-machine-plan", nil))
			w.settle()
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			retell(t, 5, c.before, func(t *testing.T, w *world) {
				c.part(t, w)
				w.elapse(time.Minute)
				w.wantMade("m1")
				if status := w.bootstrap("m1").Status; status.DataSecretName == nil {
					t.Errorf("status is %+v", status)
				}
			})
		})
	}
}

// Members leave one at a time, each before its machine is deleted, after whichever write the process is killed.
func TestHook_KilledAfterEveryWrite(t *testing.T) {
	run := func(t *testing.T, n int) (writes int) {
		t.Helper()
		tell(t, func(t *testing.T, w *world) {
			etcdCluster(w, "m1", "m2", "m3")
			w.api.ResetLog()
			cut := make(chan struct{})
			if n > 0 {
				w.api.CutAfter(manager, n, func() { close(cut) })
			}
			w.delete("m1")
			w.elapse(time.Second)
			w.delete("m2")
			for _, name := range []string{"m1", "m2"} {
				restarted := false
				for range 20 {
					w.elapse(15 * time.Second)
					select {
					case <-cut:
						if !restarted && n > 0 {
							w.restart()
							restarted, n = true, 0
						}
					default:
					}
					if w.asked(name) {
						break
					}
				}
				if hook, _ := w.held(name); !hook || !w.asked(name) {
					t.Fatalf("%s: hook %v, asked %v, want the member asked and the machine held", name, hook,
						w.asked(name))
				}
				if name == "m1" && w.asked("m2") {
					t.Fatal("both members are asked to leave at once")
				}
				w.leaves(name)
			}
			w.elapse(time.Minute)
			if n > 0 {
				select {
				case <-cut:
					w.restart()
				default:
				}
			}
			w.elapse(2 * time.Minute)
			for _, name := range []string{"m1", "m2"} {
				if hook, finalizer := w.held(name); hook || finalizer {
					t.Errorf("%s: hook %v, finalizer %v after the member has left", name, hook, finalizer)
				}
			}
			if hook, finalizer := w.held("m3"); !hook || !finalizer || w.asked("m3") {
				t.Errorf("m3, which stays, has hook %v, finalizer %v, asked %v", hook, finalizer, w.asked("m3"))
			}
			writes = w.api.Written(manager)
		})
		return writes
	}
	writes := run(t, 0)
	if writes < 4 {
		t.Fatalf("only %d writes: the story is incomplete", writes)
	}
	for n := 1; n <= writes; n++ {
		run(t, n)
	}
}

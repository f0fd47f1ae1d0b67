package unmanaged_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
)

const (
	secondIdentity = "fedcba9876543210"
	usedUp         = "the registration token edge is used up: it admits 1 and has admitted as many; use another token"
)

// token adds the ClusterRegistrationToken edge of cluster demo with these limits.
func (w *world) token(maxHosts int32, roles ...string) {
	w.Helper()
	token := &mgmtv3.ClusterRegistrationToken{
		TypeMeta:   metav1.TypeMeta{APIVersion: mgmtv3.SchemeGroupVersion.String(), Kind: "ClusterRegistrationToken"},
		ObjectMeta: metav1.ObjectMeta{Namespace: demo, Name: "edge"},
		Spec:       mgmtv3.ClusterRegistrationTokenSpec{ClusterName: demo, Roles: roles},
	}
	if maxHosts > 0 {
		token.Spec.MaxHosts = &maxHosts
	}
	must(w.T, w.api.Add(token))
}

// asks writes the request of a host with the token edge.
func (w *world) asks(id string, flags map[string]string) {
	w.Helper()
	secret := request(demo, id, flags)
	secret.Data[rkev1.MachineRequestTokenKey] = []byte("edge")
	_, err := w.user.Core.Secret().Create(secret)
	must(w.T, err)
}

// answers returns the Machine or the refusal in the answer to each host.
func (w *world) answers(ids ...string) []string {
	w.Helper()
	var out []string
	for _, id := range ids {
		secret := request(demo, id, nil)
		found, err := w.api.Get(secret)
		must(w.T, err)
		if !found {
			out = append(out, "gone")
			continue
		}
		out = append(out, secret.Labels[rkev1.MachineNameLabel]+secret.Annotations[rkev1.RegistrationRefusedAnnotation])
	}
	return out
}

// admitted returns the hosts in the status of the token edge.
func (w *world) admitted() []string {
	w.Helper()
	token, err := w.user.Management.ClusterRegistrationToken().Get(demo, "edge", metav1.GetOptions{})
	must(w.T, err)
	var names []string
	for _, host := range token.Status.Hosts {
		names = append(names, host.MachineName)
	}
	return names
}

func named(id string) string { return naming.MachineRequest(naming.MachineRequestCustom, id) }

// The first of two hosts takes the token, and keeps it after its Machine is deleted.
func TestStory_TokenForOneHost(t *testing.T) {
	tell(t, func(w *world) {
		w.token(1)
		w.asks(identity, role("worker"))
		w.asks(secondIdentity, role("worker"))
		w.pass(5 * time.Second)
		ids := []string{identity, secondIdentity}
		got := w.answers(ids...)
		if got[0] == usedUp {
			ids[0], ids[1], got[0], got[1] = ids[1], ids[0], got[1], got[0]
		}
		if diff := cmp.Diff([]string{named(ids[0]), usedUp}, got); diff != "" {
			t.Fatalf("answers (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{named(ids[0])}, w.admitted()); diff != "" {
			t.Errorf("hosts in the token's status (-want +got):\n%s", diff)
		}
		if machines := w.machines(); len(machines) != 1 {
			t.Errorf("%d machines", len(machines))
		}
		w.pass(2 * time.Minute)
		must(t, w.user.CAPI.Machine().Delete(namespace, named(ids[0]), &metav1.DeleteOptions{}))
		must(t, w.user.RKE.CustomMachine().Delete(namespace, named(ids[0]), &metav1.DeleteOptions{}))
		must(t, w.user.RKE.RKEBootstrap().Delete(namespace, named(ids[0]), &metav1.DeleteOptions{}))
		w.pass(time.Second)
		w.asks(ids[1], role("worker"))
		w.asks(ids[0], role("worker"))
		w.pass(5 * time.Second)
		if diff := cmp.Diff([]string{named(ids[0]), usedUp}, w.answers(ids...)); diff != "" {
			t.Errorf("answers after the deletion (-want +got):\n%s", diff)
		}
		w.pass(2 * time.Minute)
		w.quiet(time.Hour)
	})
}

// A token for one host never opens the Machine of another host, even though that host is registered.
func TestStory_TokenForOneHostAndTheMachineOfAnother(t *testing.T) {
	tell(t, func(w *world) {
		w.token(1)
		w.asks(identity, role("worker"))
		secret := request(demo, secondIdentity, role("etcd"))
		_, err := w.user.Core.Secret().Create(secret)
		must(t, err)
		w.pass(2 * time.Minute)
		if machines := w.machines(); len(machines) != 2 {
			t.Fatalf("%d machines", len(machines))
		}
		w.asks(secondIdentity, role("etcd"))
		w.pass(time.Second)
		if diff := cmp.Diff([]string{usedUp}, w.answers(secondIdentity)); diff != "" {
			t.Errorf("answer (-want +got):\n%s", diff)
		}
	})
}

func TestStory_TokenForWorkers(t *testing.T) {
	tell(t, func(w *world) {
		w.token(0, mgmtv3.HostRoleWorker)
		w.asks(identity, map[string]string{"role-worker": "true", "role-etcd": "true"})
		w.asks(secondIdentity, role("worker"))
		w.pass(time.Second)
		const refusal = "the registration token edge admits only hosts with these roles: worker; " +
			"this host has etcd, worker"
		if diff := cmp.Diff([]string{refusal, named(secondIdentity)}, w.answers(identity, secondIdentity)); diff != "" {
			t.Errorf("answers (-want +got):\n%s", diff)
		}
		if hosts := w.admitted(); hosts != nil {
			t.Errorf("a token without maxHosts records %v", hosts)
		}
		w.pass(2 * time.Minute)
		w.quiet(time.Hour)
	})
}

// A host whose token is in no cache yet waits for the token.
func TestStory_TokenThatComesAfterItsHost(t *testing.T) {
	tell(t, func(w *world) {
		w.asks(identity, role("worker"))
		w.pass(10 * time.Second)
		if diff := cmp.Diff([]string{""}, w.answers(identity)); diff != "" {
			t.Errorf("answer without the token (-want +got):\n%s", diff)
		}
		w.token(1, mgmtv3.HostRoleWorker)
		w.pass(time.Second)
		if diff := cmp.Diff([]string{named(identity)}, w.answers(identity)); diff != "" {
			t.Errorf("answer with the token (-want +got):\n%s", diff)
		}
	})
}

// Wherever the process is killed, a token for one host admits the same host, and no second one.
func TestStory_TokenForOneHostWhereverTheProcessIsKilled(t *testing.T) {
	t.Parallel()
	var want []any
	crashpoints.Each(t, 8, func(t *testing.T, n int) (writes int) {
		t.Helper()
		var got []any
		inWorld(t, func(w *world) {
			if n > 0 {
				w.cut = make(chan struct{})
				w.api.CutAfter(agent, n, func() { close(w.cut) })
			}
			w.token(1)
			w.asks(identity, role("worker"))
			w.pass(5 * time.Second)
			w.asks(secondIdentity, role("worker"))
			w.pass(5 * time.Second)
			got = append(got, w.answers(identity, secondIdentity))
			if diff := cmp.Diff([]any{[]string{named(identity), usedUp}}, got); diff != "" {
				t.Errorf("killed after write %d, answers (-want +got):\n%s", n, diff)
			}
			if diff := cmp.Diff([]string{named(identity)}, w.admitted()); diff != "" {
				t.Errorf("killed after write %d, hosts in the token's status (-want +got):\n%s", n, diff)
			}
			for _, gvk := range []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("Secret"),
				clusterv1.GroupVersion.WithKind("Machine")} {
				got = append(got, crashpoints.Bare(w.api.Objects(gvk)))
			}
			writes = w.api.Written(agent)
			w.pass(2 * time.Minute)
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

// Two processes that both believe that they lead admit one host together.
func TestStory_TokenForOneHostWithTwoLeaders(t *testing.T) {
	tell(t, func(w *world) {
		first := w.stop
		w.start()
		second := w.stop
		w.stop = func() { first(); second() }
		w.token(1)
		ids := []string{"a", "b", "c", "d", "e", "f"}
		for _, id := range ids {
			w.asks(id, role("worker"))
		}
		synctest.Wait()
		w.pass(30 * time.Second)
		if hosts := w.admitted(); len(hosts) != 1 {
			t.Errorf("the token admitted %v", hosts)
		}
		if machines := w.machines(); len(machines) != 1 {
			t.Errorf("%d machines", len(machines))
		}
		if refused := strings.Count(strings.Join(w.answers(ids...), "\n"), usedUp); refused != 5 {
			t.Errorf("%d hosts are refused", refused)
		}
	})
}

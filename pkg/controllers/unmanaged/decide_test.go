package unmanaged

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/registration"
)

const (
	us = "me"
	id = "0123456789abcdef"
)

var (
	noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	name = naming.MachineRequest(naming.MachineRequestCustom, id)
)

// asked returns a request with these headers, made at noon.
func asked(said map[string][]string) *corev1.Secret {
	data, err := json.Marshal(said)
	if err != nil {
		panic(err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "c-m-1", Name: name, UID: "request",
			CreationTimestamp: metav1.NewTime(noon)},
		Type: rkev1.SecretTypeMachineRequest, Data: map[string][]byte{rkev1.MachineRequestDataKey: data},
	}
}

func worker() map[string][]string { return map[string][]string{"id": {id}, "role-worker": {"true"}} }

// world returns the facts about a host that asked for the first time, ten seconds ago.
func world() *facts {
	f := &facts{instanceID: us, since: noon, now: noon.Add(10 * time.Second), maxWaiting: 100}
	f.say(worker())
	f.clusters = []*provv1.Cluster{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "demo",
			Annotations: map[string]string{rkev1.InstanceAnnotation: us}},
		Spec: provv1.ClusterSpec{RKEConfig: &provv1.RKEConfig{}}, Status: provv1.ClusterStatus{ClusterName: "c-m-1"},
	}}
	f.capi = &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "demo", UID: "capi"}}
	return f
}

func (f *facts) say(said map[string][]string) {
	f.request = asked(said)
	f.host, f.wrong = registration.ParseRequest(f.request)
}

// has gives the host a Machine with edits.
func (f *facts) has(edits ...func(m *clusterv1.Machine)) {
	made, err := f.host.Machine("fleet-default", "demo")
	if err != nil {
		panic(err)
	}
	machine := made.Machine
	machine.Labels = map[string]string{rkev1.MachineIDLabel: f.host.ID}
	for _, edit := range edits {
		edit(machine)
	}
	if machine.Labels[rkev1.MachineIDLabel] == f.host.ID {
		f.machines = append(f.machines, machine)
	}
	if machine.Name == name && machine.Namespace == "fleet-default" {
		f.named = objects{machine: machine}
	}
}

// half leaves an RKEBootstrap and a CustomMachine without a Machine.
func (f *facts) half(edit func(meta *metav1.ObjectMeta)) {
	made, err := f.host.Machine("fleet-default", "demo")
	if err != nil {
		panic(err)
	}
	f.named.bootstrap, f.named.custom = made.Bootstrap, made.Custom
	edit(&made.Bootstrap.ObjectMeta)
	edit(&made.Custom.ObjectMeta)
}

func going(meta *metav1.ObjectMeta) { meta.DeletionTimestamp = new(metav1.NewTime(noon)) }

func TestDecide(t *testing.T) {
	t.Parallel()
	here := registration.Answer{Namespace: "fleet-default", Name: name}
	left := 50 * time.Second
	keeps := decision{do: keep, again: left}
	waits := decision{do: wait, again: left}
	makes := decision{do: register, answer: here, again: left}
	answers := func(to registration.Answer) decision { return decision{do: answer, answer: to, again: left} }
	refuses := func(sentence string) decision { return answers(registration.Answer{Refusal: sentence}) }
	again := func(f *facts, given registration.Answer) { f.request = registration.WithAnswer(f.request, &given) }
	for name, tt := range map[string]struct {
		edit func(f *facts)
		want decision
	}{
		"a new host":                          {func(*facts) {}, makes},
		"a new host with some of its objects": {func(f *facts) { f.half(func(*metav1.ObjectMeta) {}) }, makes},
		"a new host with another request than its objects": {func(f *facts) {
			f.half(func(*metav1.ObjectMeta) {})
			f.say(map[string][]string{"id": {id}, "role-etcd": {"true"}})
		}, makes},
		"a host whose Machine was just created": {func(f *facts) { f.made = true; f.half(func(*metav1.ObjectMeta) {}) },
			answers(here)},
		"a host with a Machine": {func(f *facts) { f.has() }, answers(here)},
		"a host with a Machine of another name": {func(f *facts) {
			f.has(func(m *clusterv1.Machine) { m.Name = "old" })
		}, answers(registration.Answer{Namespace: "fleet-default", Name: "old"})},
		"a host with a Machine, and a request without roles": {func(f *facts) {
			f.say(map[string][]string{"id": {id}})
			f.has()
		}, answers(here)},
		"a host with a Machine, and one in another namespace": {func(f *facts) {
			f.has(func(m *clusterv1.Machine) { m.Namespace = "other" })
			f.has()
		}, answers(here)},

		"a cluster of another instance": {func(f *facts) {
			f.clusters[0].Annotations[rkev1.InstanceAnnotation] = "they"
		}, decision{do: leave}},
		"a cluster of another manager": {func(f *facts) {
			f.clusters[0].Annotations = nil
			f.now = noon.Add(time.Hour)
		}, decision{do: leave}},
		"one of two clusters is of another instance": {func(f *facts) {
			f.clusters = append(f.clusters, &provv1.Cluster{Status: provv1.ClusterStatus{ClusterName: "c-m-1"}})
		}, decision{do: leave}},
		"a request of another program, without a cluster": {func(f *facts) {
			f.clusters = nil
			f.request.Name = "imported-0123456789ab"
		}, decision{do: leave}},
		"too old": {func(f *facts) { f.now = noon.Add(time.Minute) }, decision{do: remove}},
		"too old, and answered": {func(f *facts) {
			f.has()
			again(f, here)
			f.now = noon.Add(time.Hour)
		}, decision{do: remove}},

		"created an hour ago, and first seen just now": {func(f *facts) {
			f.since, f.now = noon.Add(time.Hour), noon.Add(time.Hour+10*time.Second)
		}, makes},
		"answered, and created in a minute by another clock": {func(f *facts) {
			f.has()
			again(f, here)
			f.request.CreationTimestamp = metav1.NewTime(noon.Add(time.Minute))
			f.now = noon.Add(time.Minute)
		}, decision{do: remove}},

		"without a cluster": {func(f *facts) { f.clusters = nil }, refuses(noCluster)},
		"two clusters": {func(f *facts) { f.clusters = append(f.clusters, f.clusters[0]) },
			refuses(manyClusters)},
		"a cluster that is being deleted": {func(f *facts) { going(&f.clusters[0].ObjectMeta) },
			refuses(goingCluster)},
		"a CAPI Cluster that is being deleted": {func(f *facts) { going(&f.capi.ObjectMeta) }, refuses(goingCluster)},
		"an imported cluster": {func(f *facts) { f.clusters[0].Spec.RKEConfig = nil; f.capi = nil },
			refuses(importedOne)},
		"a cluster without a CAPI Cluster yet": {func(f *facts) { f.capi = nil }, waits},
		"a paused cluster":                     {func(f *facts) { f.capi.Spec.Paused = new(true) }, waits},

		"a request without headers": {func(f *facts) {
			f.request.Data = nil
			f.host, f.wrong = registration.ParseRequest(f.request)
		},
			refuses("the machine request c-m-1/" + name + " must have headers in data")},
		"a request without a role": {func(f *facts) { f.say(map[string][]string{"id": {id}}) },
			refuses("a role is missing: --etcd, --controlplane, --worker or --all-roles")},
		"a request under another name": {func(f *facts) { f.request.Name = "custom-000000000000" }, refuses(wrongName)},

		"a machine of another cluster": {func(f *facts) {
			f.has(func(m *clusterv1.Machine) { m.Namespace = "other" })
		}, refuses(elsewhere)},
		"a machine of a cluster in the same namespace": {func(f *facts) {
			f.has(func(m *clusterv1.Machine) { m.Spec.ClusterName = "other" })
		}, refuses(elsewhere)},
		"a machine that is being created for another cluster": {func(f *facts) { f.claimed = true },
			refuses(elsewhere)},
		"a machine of another provider": {func(f *facts) {
			f.has(func(m *clusterv1.Machine) { m.Spec.InfrastructureRef.Kind = "PodMachine" })
		}, refuses(pooled)},
		"a machine of a pool": {func(f *facts) {
			f.has(func(m *clusterv1.Machine) { m.Labels[rkev1.MachinePoolNameLabel] = "a" })
		}, refuses(pooled)},
		"a machine of a MachineSet": {func(f *facts) {
			f.has(func(m *clusterv1.Machine) { m.OwnerReferences = ofCAPI("MachineSet") })
		}, refuses(pooled)},
		"a machine that is being deleted": {func(f *facts) {
			f.has(func(m *clusterv1.Machine) { going(&m.ObjectMeta) })
		}, refuses(leaving)},
		"a machine of that name that is being deleted": {func(f *facts) {
			f.has(func(m *clusterv1.Machine) { m.Labels = nil; going(&m.ObjectMeta) })
		}, refuses(leaving)},
		"a machine of that name with another identity": {func(f *facts) {
			f.has(func(m *clusterv1.Machine) { m.Labels[rkev1.MachineIDLabel] = "x" })
		}, refuses(takenName)},
		"two machines, none of that name": {func(f *facts) { f.has(renamed("a")); f.has(renamed("b")) },
			refuses(twoMachines)},
		"two machines, one of that name": {func(f *facts) { f.has(renamed("a")); f.has() }, answers(here)},
		"objects that are being deleted": {func(f *facts) { f.half(going) }, refuses(leaving)},
		"objects of a deleted Machine": {func(f *facts) {
			f.half(func(m *metav1.ObjectMeta) { m.OwnerReferences = ofCAPI("Machine") })
		}, refuses(leaving)},
		"objects of another host": {func(f *facts) {
			f.half(func(m *metav1.ObjectMeta) { m.Labels = map[string]string{rkev1.MachineIDLabel: "x"} })
		}, refuses(takenName)},
		"objects of another cluster": {func(f *facts) {
			f.half(func(*metav1.ObjectMeta) {})
			f.named.bootstrap.Spec.ClusterName = "other"
		}, refuses(takenName)},
		"a CustomMachine of another cluster": {func(f *facts) {
			f.half(func(*metav1.ObjectMeta) {})
			f.named.custom.Labels = nil
		}, refuses(takenName)},
		"objects with the cluster as owner": {func(f *facts) {
			f.half(func(m *metav1.ObjectMeta) { m.OwnerReferences = ofCAPI("Cluster") })
		}, makes},

		"as many hosts without a node as allowed": {func(f *facts) { f.waiting = 99 }, makes},
		"too many hosts without a node":           {func(f *facts) { f.waiting = 100 }, refuses(tooMany(100))},
		"too many, including this one": {func(f *facts) { f.waiting = 100; f.has() },
			answers(here)},
		"too many, and this one was just created": {func(f *facts) { f.waiting = 100; f.made = true },
			answers(here)},
		"too many, and this request is wrong": {func(f *facts) {
			f.waiting = 100
			f.say(map[string][]string{"id": {id}})
		}, refuses("a role is missing: --etcd, --controlplane, --worker or --all-roles")},
		"too many, and this one has no Machine yet": {func(f *facts) {
			f.waiting = 100
			f.half(func(*metav1.ObjectMeta) {})
		}, refuses(tooMany(100))},
		"refused as one of too many, and others became nodes": {func(f *facts) {
			f.waiting = 99
			again(f, registration.Answer{Refusal: tooMany(100)})
		}, makes},

		"answered":                              {func(f *facts) { f.has(); again(f, here) }, keeps},
		"answered, and the Machine was deleted": {func(f *facts) { again(f, here) }, keeps},
		"answered to another request": {func(f *facts) { again(f, here); resay(f, "role-etcd"); f.has() },
			answers(here)},
		"answered to another request, and the Machine was deleted": {func(f *facts) {
			again(f, here)
			resay(f, "role-etcd")
		}, makes},
		"refused": {func(f *facts) {
			f.claimed = true
			again(f, registration.Answer{Refusal: elsewhere})
		}, refuses(elsewhere)},
		"refused for a reason that has ended": {func(f *facts) { again(f, registration.Answer{Refusal: leaving}) },
			makes},
		"refused for another request": {func(f *facts) {
			again(f, registration.Answer{Refusal: "a role is missing"})
			resay(f, "role-etcd")
		}, makes},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := world()
			tt.edit(f)
			before := f.request.DeepCopy()
			got := decide(*f)
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(decision{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, f.request); diff != "" {
				t.Errorf("the request of the cache is changed:\n%s", diff)
			}
		})
	}
}

func ofCAPI(kind string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: kind, Name: "x"}}
}

func renamed(to string) func(m *clusterv1.Machine) {
	return func(m *clusterv1.Machine) { m.Name = to }
}

// resay changes a request's content and keeps its answer.
func resay(f *facts, role string) {
	answered := f.request
	f.say(map[string][]string{"id": {id}, role: {"true"}})
	answered.Data = f.request.Data
	f.request = answered
}

// TestDecide_HidesOtherTenants: a refusal for one cluster's token contains no names of other clusters.
func TestDecide_HidesOtherTenants(t *testing.T) {
	t.Parallel()
	f := world()
	f.has(func(m *clusterv1.Machine) {
		m.Namespace, m.Name, m.Spec.ClusterName = "secret-tenant", "secret-machine", "secret-cluster"
	})
	if refusal := decide(*f).answer.Refusal; refusal == "" || strings.Contains(refusal, "secret") {
		t.Errorf("refusal %q", refusal)
	}
}

func TestClaims(t *testing.T) {
	t.Parallel()
	var c claims
	a, b := key("a"), key("b")
	if c.byAnother(id, a, noon) || !c.take(id, a, noon) || !c.take(id, a, noon.Add(5*time.Second)) {
		t.Fatal("the first claim of an identity is refused")
	}
	for at, free := range map[time.Duration]bool{6 * time.Second: false, 14 * time.Second: false} {
		if c.byAnother(id, b, noon.Add(at)) == free || c.take(id, b, noon.Add(at)) != free {
			t.Errorf("after %s: free %v", at, !free)
		}
	}
	if c.byAnother(id, a, noon.Add(6*time.Second)) || !c.take("another", b, noon.Add(6*time.Second)) {
		t.Error("the claim blocks its own cluster, or another identity")
	}
	if c.byAnother(id, b, noon.Add(20*time.Second)) || !c.take(id, b, noon.Add(20*time.Second)) {
		t.Error("the claim outlives the delay of the caches")
	}
}

func key(cluster string) types.NamespacedName {
	return types.NamespacedName{Namespace: "fleet-default", Name: cluster}
}

func TestKnown(t *testing.T) {
	t.Parallel()
	h := &handler{Deps: Deps{InstanceID: us}}
	later := noon.Add(time.Minute)
	for i, met := range []struct {
		key  string
		uid  types.UID
		at   time.Time
		want time.Time
	}{{"a/x", "1", noon, noon}, {"a/x", "1", later, noon}, {"b/x", "1", later, later}, {"a/x", "2", later, later},
		{"a/x", "1", later, later}} {
		if got := h.known.firstSeen(met.key, met.uid, met.at); !got.Equal(met.want) {
			t.Errorf("%d: first seen %s, want %s", i, got, met.want)
		}
	}
	for _, gone := range []string{"a/x", "b/x", "never/seen"} {
		if _, err := h.onRequest(gone, nil); err != nil {
			t.Error(err)
		}
	}
	if len(h.known.since) > 0 {
		t.Errorf("deleted requests are stored: %v", h.known.since)
	}
}

func TestIsWaiting(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		edit func(m *clusterv1.Machine)
		want bool
	}{
		"registered":          {func(*clusterv1.Machine) {}, true},
		"with a node":         {func(m *clusterv1.Machine) { m.Status.NodeRef.Name = "edge-1" }, false},
		"being deleted":       {func(m *clusterv1.Machine) { going(&m.ObjectMeta) }, false},
		"of a pool":           {func(m *clusterv1.Machine) { m.Labels[rkev1.MachinePoolNameLabel] = "a" }, false},
		"of another provider": {func(m *clusterv1.Machine) { m.Spec.InfrastructureRef.Kind = "PodMachine" }, false},
		"without an identity": {func(m *clusterv1.Machine) { m.Labels = nil }, true},
	} {
		f := world()
		f.has()
		tt.edit(f.machines[0])
		if got := isWaiting(f.machines[0]); got != tt.want {
			t.Errorf("a Machine %s waits for its node: %v", name, got)
		}
	}
}

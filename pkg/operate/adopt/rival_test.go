package adopt

import (
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/drover-io/drover/pkg/controllers"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/kube/rival"
	"github.com/drover-io/drover/pkg/operate/inspect"
)

// lease is a lease that a replica of an instance has renewed. The leader's lease has the instance in its holder's name.
// The replicas' leases have it in a label.
func lease(name, instance string, ago time.Duration) *coordinationv1.Lease {
	out := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: rival.DroverNamespace, Name: name},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("replica"), LeaseDurationSeconds: new(int32(13)),
			RenewTime: new(metav1.NewMicroTime(noon.Add(-ago))),
		},
	}
	if name == rival.DroverLease {
		out.Spec.HolderIdentity = new(rival.Holder("drover-0", "replica", instance))
	} else {
		out.Labels = map[string]string{rival.ReplicaLabel: rival.Digest(instance)}
	}
	return out
}

func older(lease *coordinationv1.Lease) *coordinationv1.Lease {
	lease.Spec.HolderIdentity = new("drover-0_0a1b2c3d-0000-4000-8000-000000000000")
	return lease
}

// Rancher is a rival regardless of the former manager, because it manages every cluster that it finds. A leading Drover
// is a rival of every other instance. The replicas' leases show that the instance that has the cluster is alive.
func TestRival_IsAManagerThatIsAlive(t *testing.T) {
	all := []inspect.Ownership{inspect.OwnerNone, inspect.OwnerUnmarked, inspect.OwnerReleased, inspect.OwnerOther}
	meta := metav1.ObjectMeta{Namespace: rival.DeploymentNamespace, Name: rival.DeploymentName}
	rancher := []runtime.Object{&appsv1.Deployment{ObjectMeta: meta}}
	const leads, replica = rival.DroverLease, "drover-replica-x"
	for name, tc := range map[string]struct {
		objects []runtime.Object
		owners  []inspect.Ownership
		want    string // empty: no rival
	}{
		"no manager runs here": {owners: all},
		"the adopting instance leads": {objects: []runtime.Object{lease(leads, "b", time.Second),
			lease(replica, "b", time.Second)}, owners: all},
		"another instance leads": {
			objects: []runtime.Object{lease(leads, "c", time.Second)}, owners: all,
			want: "an instance of Drover with the digest " + rival.Digest("c") + " leads here (drover-0_replica_",
		},
		"another instance leads, and its name is known": {
			objects: []runtime.Object{lease(leads, "a", time.Second), controllers.Settings{}.ConfigMap("a")},
			owners:  all,
			want:    `instance "a" of Drover leads here`,
		},
		"the former instance led before": {objects: []runtime.Object{lease(leads, "a", time.Minute),
			lease(replica, "a", time.Minute)}, owners: all},
		"a leader without a digest": {objects: []runtime.Object{older(lease(leads, "a", time.Second))}, owners: all},
		"the former instance waits": {
			objects: []runtime.Object{lease(leads, "b", time.Second), lease(replica, "a", time.Second)},
			owners:  []inspect.Ownership{inspect.OwnerOther},
			want:    `instance "a" of Drover, which has the cluster, runs here: one of its replicas renews lease drover-system/drover-replica-x. Stop it`,
		},
		"the former instance waits, and has released it": {
			objects: []runtime.Object{lease(leads, "b", time.Second), lease(replica, "a", time.Second)},
			owners:  []inspect.Ownership{inspect.OwnerReleased},
		},
		"Rancher runs": {
			objects: rancher, owners: all,
			want: "Rancher is running: Deployment cattle-system/rancher wants replicas. Switch it off (kubectl",
		},
		"Rancher runs, and the instance has the cluster": {objects: rancher,
			owners: []inspect.Ownership{inspect.OwnerSame}},
		"the instance has the cluster": {objects: []runtime.Object{lease(leads, "a", time.Second)},
			owners: []inspect.Ownership{inspect.OwnerSame}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, owner := range tc.owners {
				a := inspect.Adoption{Owner: owner, Mark: "a", Instance: "b"}
				got, err := Rival(t.Context(), fake.NewClientset(tc.objects...), a, noon)
				if err != nil || (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
					t.Errorf("%s: %q, %v, want %q", owner, got, err, tc.want)
				}
			}
		})
	}
}

// A failed read does not count as the absence of a rival. This test has no clients for writes, so Take must write
// nothing.
func TestTake_RefusedBesideAnotherDrover(t *testing.T) {
	for name, tc := range map[string]struct {
		verb    string // the forbidden verb for Leases
		objects []runtime.Object
		want    string
		refused bool
	}{
		"it leads": {objects: []runtime.Object{lease(rival.DroverLease, "a", time.Second)},
			want: "leads here", refused: true},
		"it waits": {objects: []runtime.Object{lease("drover-replica-x", "a", time.Second)},
			want: "runs here", refused: true},
		"who leads may not be read":  {verb: "get", want: "read the lease"},
		"replicas may not be listed": {verb: "list", want: "list the Leases of replicas of Drover: forbidden"},
		"the leader is known, and no others": {verb: "list",
			objects: []runtime.Object{lease(rival.DroverLease, "a", time.Second)}, want: "leads here", refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(tc.objects...)
			client.PrependReactor("*", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
				return action.GetVerb() == tc.verb && action.GetNamespace() == rival.DroverNamespace, nil,
					errors.New("forbidden")
			})
			a := inspect.Adoption{Owner: inspect.OwnerOther, Mark: "a", Instance: "b"}
			err := Take(t.Context(), &clients.Clients{Kubernetes: client}, a, Limits{From: "a", Now: noon})
			_, refused := errors.AsType[*Refusal](err)
			if err == nil || !strings.Contains(err.Error(), tc.want) || refused != tc.refused {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

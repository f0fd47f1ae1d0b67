package rival

import (
	"context"
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
)

// Digests are stored, in labels and in the lease: this one must not change.
const digestOfA = "ca978112ca1bbdca"

func TestInstanceOf_IsInTheNameOfTheHolder(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ holder, want string }{
		"a replica": {Holder("drover-0", "0a1b2c3d-0000-4000-8000-000000000000", "a"),
			digestOfA},
		"a host name with another separator": {Holder("my_host", "0a1b2c3d-0000-4000-8000-000000000000", "a"),
			digestOfA},
		"an older Drover":       {"drover-0_0a1b2c3d-0000-4000-8000-000000000000", ""},
		"somebody":              {"somebody", ""},
		"only a digest":         {digestOfA, ""},
		"too long for a digest": {"drover-0_" + digestOfA + "00", ""},
		"nobody":                {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := InstanceOf(tc.holder); got != tc.want {
				t.Errorf("%q is of %q, want %q", tc.holder, got, tc.want)
			}
		})
	}
}

func droverLease(name, holder string, ago time.Duration, labels map[string]string) *coordinationv1.Lease {
	out := lease(holder, ago)
	out.Namespace, out.Name, out.Labels = DroverNamespace, name, labels
	out.Spec.LeaseDurationSeconds = ptr.To[int32](13)
	return out
}

func TestLeader_HoldsTheLease(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		objects []runtime.Object
		want    string
	}{
		"no Drover was ever the leader": {},
		"a Drover leads":                {[]runtime.Object{droverLease(DroverLease, "a", time.Second, nil)}, "a"},
		"the lease was released":        {[]runtime.Object{droverLease(DroverLease, "", time.Second, nil)}, ""},
		"the leader disappeared":        {[]runtime.Object{droverLease(DroverLease, "a", time.Minute, nil)}, ""},
		"another lease has the name":    {[]runtime.Object{droverLease("other", "a", time.Second, nil)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := Leader(t.Context(), fake.NewClientset(tc.objects...), noon); err != nil || got != tc.want {
				t.Errorf("%q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

func TestReplica_OfTheInstanceIsAlive(t *testing.T) {
	t.Parallel()
	of := func(instance string) map[string]string { return map[string]string{ReplicaLabel: Digest(instance)} }
	for name, tc := range map[string]struct {
		objects []runtime.Object
		want    string
	}{
		"no replica": {},
		"a live replica": {[]runtime.Object{droverLease("r1", "x", time.Hour, of("a")),
			droverLease("r2", "x", time.Second, of("a"))}, "r2"},
		"a killed replica":              {[]runtime.Object{droverLease("r1", "x", time.Hour, of("a"))}, ""},
		"a replica of another instance": {[]runtime.Object{droverLease("r1", "x", time.Second, of("b"))}, ""},
		"only the lease of leaders":     {[]runtime.Object{droverLease(DroverLease, "x", time.Second, nil)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := Replica(t.Context(), fake.NewClientset(tc.objects...), "a", noon); err != nil ||
				got != tc.want {
				t.Errorf("%q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

// An unreadable lease is an error rather than an absent Drover.
func TestDrover_UnreadableIsAnError(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset()
	client.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("forbidden")
	})
	if got, err := Leader(context.Background(), client, noon); err == nil {
		t.Errorf("leader %q", got)
	}
	if got, err := Replica(context.Background(), client, "a", noon); err == nil {
		t.Errorf("replica %q", got)
	}
}

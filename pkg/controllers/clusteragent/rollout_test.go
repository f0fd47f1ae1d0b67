package clusteragent

import (
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func cluster(i int) types.NamespacedName {
	return types.NamespacedName{Namespace: "fleet", Name: strconv.Itoa(i)}
}

// One cluster starts, and each agent that connects lets one more follow.
func TestRollout_StartsWithOneCluster(t *testing.T) {
	t.Parallel()
	r, now := newRollout(), time.Unix(1e9, 0)
	var under []types.NamespacedName
	for i := range 100 {
		if r.take(cluster(i), "v", now) {
			under = append(under, cluster(i))
		}
	}
	var sizes []int
	for len(under) > 0 && len(sizes) < 200 {
		sizes = append(sizes, len(under))
		r.succeeded(under[0], now)
		under = under[1:]
		for _, name := range r.next(now) {
			if !r.take(name, "v", now) {
				t.Fatalf("it is the turn of %s, but there is no room", name)
			}
			under = append(under, name)
		}
	}
	if len(sizes) != 100 || sizes[0] != 1 || sizes[1] != 2 || sizes[2] != 3 || sizes[50] != most {
		t.Errorf("clusters that update at the same time: %v", sizes)
	}
	if s, _ := r.state(now); s.waiting != 0 || s.under != 0 {
		t.Errorf("left in the rollout: %+v", s)
	}
	if now = now.Add(quiet + time.Second); !r.take(cluster(1), "w", now) || r.take(cluster(2), "w", now) {
		t.Error("the next rollout does not start with one cluster")
	}
}

func TestRollout_LostAgentsStopTheRollout(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		back int
		then func(r *rollout, now time.Time)
		want bool // another cluster may follow
	}{
		"three agents do not connect":              {back: 0, want: false},
		"three of twenty agents do not connect":    {back: 20, want: false},
		"three of a hundred agents do not connect": {back: 100, want: true},
		"one agent connects": {back: 0, then: func(r *rollout, now time.Time) {
			r.succeeded(cluster(1000), now)
		}, want: true},
		"one cluster is deleted": {back: 0, then: func(r *rollout, _ time.Time) { r.forget(cluster(1000)) },
			want: true},
		"one target changes": {back: 0, then: func(r *rollout, now time.Time) {
			r.take(cluster(1000), "better", now)
			r.succeeded(cluster(1000), now)
		}, want: true},
		"one cluster is checked again": {back: 0, then: func(r *rollout, now time.Time) {
			r.watch(cluster(1000), "v", now)
		}, want: false},
		"one more cluster waits": {back: 0, then: func(r *rollout, now time.Time) { r.take(cluster(2000), "v", now) },
			want: false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, now := newRollout(), time.Unix(1e9, 0)
			for i := range c.back {
				if !r.take(cluster(i), "v", now) {
					t.Fatal("no room")
				}
				r.succeeded(cluster(i), now)
			}
			for i := range suspicious {
				if !r.take(cluster(1000+i), "v", now) {
					t.Fatal("no room")
				}
				now = now.Add(patience)
			}
			s, changed := r.state(now)
			if stopped := c.back < 30; s.stopped != stopped || changed != stopped || len(s.lost) != suspicious {
				t.Errorf("%+v, changed %v", s, changed)
			}
			if c.then != nil {
				c.then(r, now)
			}
			if got := r.take(cluster(3000), "v", now); got != c.want {
				t.Errorf("another cluster may update: %v, want %v", got, c.want)
			}
			if s, changed := r.state(now); changed != (c.then != nil && c.want) {
				t.Errorf("the end of the stop is reported: %v, %+v", changed, s)
			}
		})
	}
}

func TestIsRolledOut(t *testing.T) {
	t.Parallel()
	status := func(observed int64, replicas, updated, available int32) appsv1.DeploymentStatus {
		return appsv1.DeploymentStatus{ObservedGeneration: observed, Replicas: replicas, UpdatedReplicas: updated,
			AvailableReplicas: available}
	}
	for name, c := range map[string]struct {
		status appsv1.DeploymentStatus
		want   bool
	}{
		"no controller has seen it yet":                              {status(1, 1, 1, 1), false},
		"the new pod does not exist":                                 {status(2, 1, 0, 1), false},
		"the new pod is not connected":                               {status(2, 2, 1, 1), false},
		"the new pod is connected, and the old one is being deleted": {status(2, 2, 1, 2), true},
		"only the new pod exists":                                    {status(2, 1, 1, 1), true},
		"one of two pods is connected":                               {status(2, 3, 1, 3), true},
		"no pod is connected":                                        {status(2, 1, 1, 0), false},
	} {
		if got := isRolledOut(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 2},
			Status: c.status}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Three clusters that are switched off do not stop the rollout for all others.
func TestRollout_DisconnectedClustersDelayNoOthers(t *testing.T) {
	t.Parallel()
	now, r := time.Now(), newRollout()
	r.last = now
	for i := range 3 {
		r.watch(cluster(i), "v2", now)
	}
	now = now.Add(patience)
	if r.take(cluster(9), "v2", now) {
		t.Fatal("others update although three agents have not connected")
	}
	for i := range 3 {
		r.disconnected(cluster(i), now)
	}
	if !r.take(cluster(9), "v2", now) {
		t.Error("clusters without a connected agent delay the others")
	}
}

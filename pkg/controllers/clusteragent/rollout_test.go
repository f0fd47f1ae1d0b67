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
func TestRollout_BeginsWithOne(t *testing.T) {
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
		r.landed(under[0], now)
		under = under[1:]
		for _, name := range r.next(now) {
			if !r.take(name, "v", now) {
				t.Fatalf("it is the turn of %s, and there is no room", name)
			}
			under = append(under, name)
		}
	}
	if len(sizes) != 100 || sizes[0] != 1 || sizes[1] != 2 || sizes[2] != 3 || sizes[50] != most {
		t.Errorf("clusters at the same time: %v", sizes)
	}
	if s, _ := r.state(now); s.waiting != 0 || s.under != 0 {
		t.Errorf("left over: %+v", s)
	}
	if now = now.Add(quiet + time.Second); !r.take(cluster(1), "w", now) || r.take(cluster(2), "w", now) {
		t.Error("the next update of all does not begin with one")
	}
}

func TestRollout_LostAgentsStopTheOthers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		back int
		then func(r *rollout, now time.Time)
		want bool // another cluster may follow
	}{
		"three do not connect":         {back: 0, want: false},
		"nor do three of twenty":       {back: 20, want: false},
		"three of a hundred":           {back: 100, want: true},
		"one comes back":               {back: 0, then: func(r *rollout, now time.Time) { r.landed(cluster(1000), now) }, want: true},
		"one is deleted":               {back: 0, then: func(r *rollout, _ time.Time) { r.forget(cluster(1000)) }, want: true},
		"one is to be something else":  {back: 0, then: func(r *rollout, now time.Time) { r.take(cluster(1000), "better", now); r.landed(cluster(1000), now) }, want: true},
		"one is looked at once more":   {back: 0, then: func(r *rollout, now time.Time) { r.watch(cluster(1000), "v", now) }, want: false},
		"one more waits all the while": {back: 0, then: func(r *rollout, now time.Time) { r.take(cluster(2000), "v", now) }, want: false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, now := newRollout(), time.Unix(1e9, 0)
			for i := range c.back {
				if !r.take(cluster(i), "v", now) {
					t.Fatal("no room")
				}
				r.landed(cluster(i), now)
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
				t.Errorf("another one follows: %v, want %v", got, c.want)
			}
			if s, changed := r.state(now); changed != (c.then != nil && c.want) {
				t.Errorf("that it goes on is told: %v, %+v", changed, s)
			}
		})
	}
}

func TestOver(t *testing.T) {
	t.Parallel()
	status := func(observed int64, replicas, updated, available int32) appsv1.DeploymentStatus {
		return appsv1.DeploymentStatus{ObservedGeneration: observed, Replicas: replicas, UpdatedReplicas: updated, AvailableReplicas: available}
	}
	for name, c := range map[string]struct {
		status appsv1.DeploymentStatus
		want   bool
	}{
		"nobody has looked yet":            {status(1, 1, 1, 1), false},
		"the new pod is not there":         {status(2, 1, 0, 1), false},
		"the new pod is not connected":     {status(2, 2, 1, 1), false},
		"the new pod is, the old one goes": {status(2, 2, 1, 2), true},
		"the new pod is alone":             {status(2, 1, 1, 1), true},
		"one of two is connected":          {status(2, 3, 1, 3), true},
		"none is":                          {status(2, 1, 1, 0), false},
	} {
		if got := over(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Status: c.status}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Three clusters that are switched off do not stop the rollout for all others.
func TestRollout_ClustersThatAreAwayHoldUpNobody(t *testing.T) {
	t.Parallel()
	now, r := time.Now(), newRollout()
	r.last = now
	for i := range 3 {
		r.watch(cluster(i), "v2", now)
	}
	now = now.Add(patience)
	if r.take(cluster(9), "v2", now) {
		t.Fatal("others follow although three have not come back")
	}
	for i := range 3 {
		r.away(cluster(i), now)
	}
	if !r.take(cluster(9), "v2", now) {
		t.Error("clusters whose agents are not connected at all hold up the others")
	}
}

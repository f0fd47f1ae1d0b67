package topology_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"pgregory.net/rapid"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// etcdPool is a pool of members that are replaced after a minute.
func etcdPool(name string, quantity int32, edits ...func(*provv1.RKEMachinePool)) provv1.RKEMachinePool {
	pool := provv1.RKEMachinePool{
		Name: name, EtcdRole: true, ControlPlaneRole: true, Quantity: &quantity,
		UnhealthyNodeTimeout: &metav1.Duration{Duration: time.Minute},
	}
	for _, edit := range edits {
		edit(&pool)
	}
	return pool
}

func atMost(text string) func(*provv1.RKEMachinePool) {
	return func(p *provv1.RKEMachinePool) { p.MaxUnhealthy = &text }
}

func between(text string) func(*provv1.RKEMachinePool) {
	return func(p *provv1.RKEMachinePool) { p.UnhealthyRange = &text }
}

func unchecked(p *provv1.RKEMachinePool) { p.UnhealthyNodeTimeout = nil }

// scaled removes the pool's quantity.
func scaled(p *provv1.RKEMachinePool) { p.Quantity = nil }

func asWorkers(p *provv1.RKEMachinePool) {
	p.EtcdRole, p.ControlPlaneRole, p.WorkerRole = false, false, true
}

func longer(p *provv1.RKEMachinePool) {
	p.UnhealthyNodeTimeout, p.NodeStartupTimeout = &metav1.Duration{Duration: time.Hour},
		&metav1.Duration{Duration: time.Minute}
}

func healthChecks(t *testing.T, pools ...provv1.RKEMachinePool) []*clusterv1.MachineHealthCheck {
	t.Helper()
	return healthChecksOf(t, func(*topology.Input) {}, pools...)
}

// healthChecksOf returns the health checks of a cluster that has been running for a while.
func healthChecksOf(t *testing.T, running func(*topology.Input),
	pools ...provv1.RKEMachinePool) []*clusterv1.MachineHealthCheck {
	t.Helper()
	in := demo(t, func(c *provv1.Cluster) {
		config := pool(c, 0).NodeConfig
		c.Spec.RKEConfig.MachinePools = slices.Clone(pools)
		for i := range pools {
			pool(c, i).NodeConfig = config
		}
	})
	running(&in)
	return find[*clusterv1.MachineHealthCheck](t, desired(t, in))
}

// selectedBy returns the MachineDeployments that a check selects.
func selectedBy(check *clusterv1.MachineHealthCheck) []string {
	if name := check.Spec.Selector.MatchLabels[clusterv1.MachineDeploymentNameLabel]; name != "" {
		return []string{name}
	}
	return check.Spec.Selector.MatchExpressions[0].Values
}

// allowed is the largest number of unhealthy machines, out of machines, at which Cluster API replaces one; 0 for never.
func allowed(check *clusterv1.MachineHealthCheck, machines int) int {
	limit := check.Spec.Remediation.TriggerIf
	if limit.UnhealthyInRange != "" {
		_, to, _ := strings.Cut(strings.Trim(limit.UnhealthyInRange, "[]"), "-")
		number, _ := strconv.Atoi(to)
		return min(number, machines)
	}
	if limit.UnhealthyLessThanOrEqualTo == nil {
		return machines
	}
	number, _ := intstr.GetScaledValueFromIntOrPercent(limit.UnhealthyLessThanOrEqualTo, machines, false)
	return min(number, machines)
}

// TestDesired_HealthChecksPauseForARestore checks that no machine is replaced because a restore stops every node.
func TestDesired_HealthChecksPauseForARestore(t *testing.T) {
	t.Parallel()
	for _, restoring := range []bool{true, false} {
		checks := healthChecksOf(t, func(in *topology.Input) { in.Restoring = restoring }, etcdPool("a", 3),
			etcdPool("w", 3, asWorkers))
		if len(checks) != 2 {
			t.Fatalf("%d checks", len(checks))
		}
		for _, check := range checks {
			if _, paused := check.Annotations[clusterv1.PausedAnnotation]; paused != restoring {
				t.Errorf("%s: paused %v while a restore runs: %v", check.Name, paused, restoring)
			}
		}
	}
}

func TestDesired_HealthChecks(t *testing.T) {
	t.Parallel()
	type check struct {
		Name, Limit   string
		Of            []string
		After, Joined int32 // seconds
	}
	for name, tc := range map[string]struct {
		pools []provv1.RKEMachinePool
		want  []check
	}{
		"no health check is requested": {pools: []provv1.RKEMachinePool{etcdPool("a", 3, unchecked)}},
		"one pool with etcd": {pools: []provv1.RKEMachinePool{etcdPool("a", 3)},
			want: []check{{Name: "demo-a", Limit: "49%", Of: []string{"demo-a"}, After: 60}}},
		"a pool for each machine": {pools: []provv1.RKEMachinePool{etcdPool("b", 1), etcdPool("a", 1),
			etcdPool("c", 1)}, want: []check{{Name: "demo-b", Limit: "49%", Of: []string{"demo-a", "demo-b", "demo-c"},
			After: 60}}},
		"the longest times count, including the default": {
			pools: []provv1.RKEMachinePool{etcdPool("a", 1), etcdPool("b", 2, longer)},
			want:  []check{{Name: "demo-a", Limit: "49%", Of: []string{"demo-a", "demo-b"}, After: 3600, Joined: 600}},
		},
		"workers have their own checks": {
			pools: []provv1.RKEMachinePool{etcdPool("a", 3), etcdPool("w", 3, asWorkers),
				etcdPool("x", 3, asWorkers, between("[2-3]"), atMost("40%"))},
			want: []check{
				{Name: "demo-a", Limit: "49%", Of: []string{"demo-a"}, After: 60},
				{Name: "demo-w", Of: []string{"demo-w"}, After: 60},
				{Name: "demo-x", Limit: "[2-3] 40%", Of: []string{"demo-x"}, After: 60},
			},
		},
		"members without a health check": {
			pools: []provv1.RKEMachinePool{etcdPool("a", 4), etcdPool("b", 1, unchecked)},
			want:  []check{{Name: "demo-a", Limit: "25%", Of: []string{"demo-a"}, After: 60}},
		},
		"too many members without a health check": {
			pools: []provv1.RKEMachinePool{etcdPool("a", 3), etcdPool("b", 2, unchecked)},
			want:  []check{{Name: "demo-a", Limit: "0%", Of: []string{"demo-a"}, After: 60}},
		},
		"the user allows too large a share": {pools: []provv1.RKEMachinePool{etcdPool("a", 3, atMost("100%"))},
			want: []check{{Name: "demo-a", Limit: "49%", Of: []string{"demo-a"}, After: 60}}},
		"the user allows too many": {pools: []provv1.RKEMachinePool{etcdPool("a", 3, atMost("3"))},
			want: []check{{Name: "demo-a", Limit: "49%", Of: []string{"demo-a"}, After: 60}}},
		"the user allows fewer": {pools: []provv1.RKEMachinePool{etcdPool("a", 5, atMost("1"))},
			want: []check{{Name: "demo-a", Limit: "20%", Of: []string{"demo-a"}, After: 60}}},
		"the user allows none": {pools: []provv1.RKEMachinePool{etcdPool("a", 5, atMost("0"))},
			want: []check{{Name: "demo-a", Limit: "0%", Of: []string{"demo-a"}, After: 60}}},
		"one of the pools allows fewer": {pools: []provv1.RKEMachinePool{etcdPool("a", 3),
			etcdPool("b", 2, atMost("10%"))},
			want: []check{{Name: "demo-a", Limit: "10%", Of: []string{"demo-a", "demo-b"}, After: 60}}},
		"a range that starts at one": {pools: []provv1.RKEMachinePool{etcdPool("a", 5, between("[1-1]"))},
			want: []check{{Name: "demo-a", Limit: "20%", Of: []string{"demo-a"}, After: 60}}},
		"a range that is too large": {pools: []provv1.RKEMachinePool{etcdPool("a", 5, between("[0-5]"))},
			want: []check{{Name: "demo-a", Limit: "49%", Of: []string{"demo-a"}, After: 60}}},
		"an external size": {pools: []provv1.RKEMachinePool{etcdPool("a", 0, scaled)},
			want: []check{{Name: "demo-a", Limit: "49%", Of: []string{"demo-a"}, After: 60}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []check
			for _, c := range healthChecks(t, tc.pools...) {
				limit := c.Spec.Remediation.TriggerIf
				text := limit.UnhealthyInRange
				if limit.UnhealthyLessThanOrEqualTo != nil {
					text = strings.TrimSpace(text + " " + limit.UnhealthyLessThanOrEqualTo.String())
				}
				found := check{Name: c.Name, Limit: text, Of: selectedBy(c),
					After: *c.Spec.Checks.UnhealthyNodeConditions[0].TimeoutSeconds}
				if joined := c.Spec.Checks.NodeStartupTimeoutSeconds; joined != nil {
					found.Joined = *joined
				}
				got = append(got, found)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("checks (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDesired_HealthChecksWithoutALimitForNodesToAppear checks that a timeout of 0, which means forever to Cluster API,
// counts as the longest.
func TestDesired_HealthChecksWithoutALimitForNodesToAppear(t *testing.T) {
	t.Parallel()
	endless := func(p *provv1.RKEMachinePool) { p.NodeStartupTimeout = &metav1.Duration{} }
	for name, pools := range map[string][]provv1.RKEMachinePool{
		"a single pool":              {etcdPool("a", 3, endless)},
		"with a pool without a time": {etcdPool("a", 2), etcdPool("b", 1, endless)},
		"with a pool with a time":    {etcdPool("a", 2, endless), etcdPool("b", 1, longer)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, check := range healthChecks(t, pools...) {
				if got := check.Spec.Checks.NodeStartupTimeoutSeconds; got == nil || *got != 0 {
					t.Errorf("%s waits for nodes for %v seconds", check.Name, got)
				}
			}
		})
	}
}

// TestDesired_HealthChecksCountExistingMembers checks that members without a health check count by their current
// number, not by the manifest.
func TestDesired_HealthChecksCountExistingMembers(t *testing.T) {
	t.Parallel()
	sized := func(sizes map[string]int32) func(*topology.Input) {
		return func(in *topology.Input) { in.Replicas = sizes }
	}
	registered := func(number int) func(*topology.Input) {
		return func(in *topology.Input) { in.RegisteredMembers = number }
	}
	limited := func(p *provv1.RKEMachinePool) {
		p.AutoscalingMinSize, p.AutoscalingMaxSize = new(int32(1)), new(int32(3))
	}
	for name, tc := range map[string]struct {
		running func(*topology.Input)
		pools   []provv1.RKEMachinePool
		want    string
	}{
		"unchecked, not created yet": {sized(nil),
			[]provv1.RKEMachinePool{etcdPool("a", 4), etcdPool("b", 0, unchecked, scaled)}, "25%"},
		"unchecked, scaled to three": {sized(map[string]int32{"demo-b": 3}),
			[]provv1.RKEMachinePool{etcdPool("a", 4), etcdPool("b", 0, unchecked, scaled)}, "0%"},
		"unchecked, scaled to none": {sized(map[string]int32{"demo-b": 0}),
			[]provv1.RKEMachinePool{etcdPool("a", 4), etcdPool("b", 0, unchecked, scaled)}, "49%"},
		"unchecked, a size in the manifest": {sized(map[string]int32{"demo-b": 3}),
			[]provv1.RKEMachinePool{etcdPool("a", 4), etcdPool("b", 1, unchecked)}, "25%"},
		"unchecked, an autoscaler": {sized(map[string]int32{"demo-b": 5}),
			[]provv1.RKEMachinePool{etcdPool("a", 4), etcdPool("b", 1, unchecked, limited)}, "0%"},
		"checked, scaled to five": {sized(map[string]int32{"demo-a": 5}),
			[]provv1.RKEMachinePool{etcdPool("a", 0, scaled), etcdPool("b", 2, unchecked)}, "20%"},
		"one registered": {registered(1), []provv1.RKEMachinePool{etcdPool("a", 4)}, "25%"},
		"two registered": {registered(2), []provv1.RKEMachinePool{etcdPool("a", 3)}, "0%"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checks := healthChecksOf(t, tc.running, tc.pools...)
			if len(checks) != 1 || checks[0].Spec.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo.String() != tc.want {
				t.Errorf("checks %+v, want one with the limit %s", checks, tc.want)
			}
		})
	}
}

// TestDesired_HealthChecksKeepTheQuorum checks any distribution of members over pools with any limits of the user. No
// health check removes so many members that the others are not a majority, even when not all exist yet. All checked
// members count together, and no member is in two checks.
func TestDesired_HealthChecksKeepTheQuorum(t *testing.T) {
	t.Parallel()
	limits := []string{"", "0", "1", "2", "5", "20%", "50%", "100%"}
	ranges := []string{"", "[0-1]", "[1-2]", "[1-5]", "[0-0]"}
	rapid.Check(t, func(rt *rapid.T) {
		var pools []provv1.RKEMachinePool
		replicas, registered := map[string]int32{}, rapid.IntRange(0, 3).Draw(rt, "registered")
		all, checked := registered, 0
		for i := range rapid.IntRange(1, 4).Draw(rt, "pools") {
			pool := etcdPool(fmt.Sprintf("p%d", i), rapid.Int32Range(1, 4).Draw(rt, "quantity"),
				atMost(rapid.SampledFrom(limits).Draw(rt, "limit")),
				between(rapid.SampledFrom(ranges).Draw(rt, "range")))
			members := int(*pool.Quantity)
			if rapid.Bool().Draw(rt, "with an external size") {
				replicas["demo-"+pool.Name] = *pool.Quantity
				scaled(&pool)
			}
			all += members
			if rapid.IntRange(0, 3).Draw(rt, "checked") == 0 {
				unchecked(&pool)
			} else {
				checked += members
			}
			pools = append(pools, pool)
		}
		cluster := demo(t).Cluster.DeepCopy()
		config := cluster.Spec.RKEConfig.MachinePools[0].NodeConfig
		for i := range pools {
			pools[i].NodeConfig = config
		}
		cluster.Spec.RKEConfig.MachinePools = pools
		in := prepare(t, raw(cluster))
		in.Replicas, in.RegisteredMembers = replicas, registered
		if errs := topology.Validate(in); len(errs) > 0 {
			rt.Fatalf("not valid: %s", topology.Explain(errs))
		}
		objects, err := topology.Desired(in)
		if err != nil {
			rt.Fatal(err)
		}
		checks := find[*clusterv1.MachineHealthCheck](t, objects)
		if want := min(checked, 1); len(checks) != want {
			rt.Fatalf("%d checks, want %d", len(checks), want)
		}
		for _, check := range checks {
			if replaced := allowed(check, checked); replaced > 0 && checked-replaced < all/2+1 {
				rt.Fatalf("%d of %d members may be deleted, %d more have no health check", replaced, checked,
					all-checked)
			}
			for there := 1; there < checked && all == checked; there++ {
				if replaced := allowed(check, there); replaced > (there-1)/2 {
					rt.Fatalf("%d of %d existing members may be deleted", replaced, there)
				}
			}
		}
	})
}

// TestValidate_RangesOfMembersBeginWithOne checks that ranges begin with at most one. A range cannot follow the current
// number of members: of three existing members, with five desired, it would permit the loss of two.
func TestValidate_RangesOfMembersBeginWithOne(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pool provv1.RKEMachinePool
		want int
	}{
		"a range that starts at one":                         {etcdPool("a", 5, between("[1-2]")), 0},
		"a range that starts higher":                         {etcdPool("a", 5, between("[2-2]")), 1},
		"a range that starts higher, without a health check": {etcdPool("a", 5, between("[2-2]"), unchecked), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := demo(t, func(c *provv1.Cluster) {
				tc.pool.NodeConfig = pool(c, 0).NodeConfig
				*pool(c, 0) = tc.pool
			})
			errs := topology.Validate(in)
			if len(errs) != tc.want {
				t.Fatalf("errors %s, want %d", topology.Explain(errs), tc.want)
			}
			for _, err := range errs {
				if err.Field != "spec.rkeConfig.machinePools[0].unhealthyRange" ||
					!strings.Contains(err.Detail, "must begin with 0 or 1") {
					t.Errorf("error %v", err)
				}
			}
		})
	}
}

package highavailability

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/testkit/fakeagent"
	"github.com/drover-io/drover/tests/contract/audit"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/replica"
	"github.com/drover-io/drover/tests/contract/stage"
)

const (
	// takeOver is the promised limit from the death of a leader to the first write of the next leader.
	takeOver = 20 * time.Second
	// handOver is the time from the moment at which a leader releases the lease to the next leader's first write.
	handOver = 5 * time.Second
	// drain is how long a terminated replica continues to serve.
	drain = 2 * time.Second
)

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	os.Exit(stage.Main(m))
}

// hall is three replicas with their machines.
type hall struct {
	*testing.T
	*stage.Stage
	doors    map[string]*door
	replicas []*replica.Replica
	balancer *balancer
	made     *made
}

// made counts how often a host was created for each machine.
type made struct {
	fakeagent.NoFaults
	mu    sync.Mutex
	hosts map[string]int
}

// Job implements fakeagent.Faults.
func (m *made) Job(machine string, remove bool, attempt int) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !remove {
		m.hosts[machine] = max(m.hosts[machine], attempt)
	}
	return ""
}

// newHall starts the replicas, with additional arguments.
func newHall(t *testing.T, more ...string) *hall {
	t.Helper()
	h := &hall{T: t, doors: map[string]*door{}, made: &made{hosts: map[string]int{}}}
	for _, name := range []string{"replica-a", "replica-b", "replica-c"} {
		h.doors[name] = newDoor(t, name)
		h.replicas = append(h.replicas, replica.New(t, name, h.doors[name].kubeconfig,
			append([]string{"--shutdown-delay=" + drain.String()}, more...)...))
	}
	h.balancer = newBalancer(t, h.replicas...)
	agents := newAgents(t, h.balancer)
	h.Stage = stage.Start(t, stage.Settings{
		Machines: func(o *fakeagent.Options) {
			o.Boot, o.Install, o.Secrets, o.Faults, o.Dial = 2*time.Second, 2*time.Second, agents.secrets, h.made,
				replica.Dial(h.replicas...)
		},
		Drover: func(*testing.T) {
			for _, r := range h.replicas {
				r.Start()
			}
			for _, r := range h.replicas {
				r.AwaitReady()
			}
		},
	})
	authority := &corev1.Secret{}
	h.must(h.Client.Get(t.Context(), client.ObjectKey{Namespace: "drover-system", Name: "drover-ca"}, authority))
	h.must(h.balancer.trust(authority.Data[corev1.TLSCertKey]))
	return h
}

func (h *hall) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *hall) leader() *replica.Replica {
	h.Helper()
	return replica.Leader(h.T, time.Minute, h.replicas...)
}

func (h *hall) others(than *replica.Replica) []*replica.Replica {
	return slices.DeleteFunc(slices.Clone(h.replicas), func(r *replica.Replica) bool { return r == than })
}

// expectServing fails unless those replicas run and serve machines.
func (h *hall) expectServing(moment string, all ...*replica.Replica) {
	h.Helper()
	for _, r := range all {
		plane.Until(h.T, 5*time.Second, func() string {
			for _, one := range h.balancer.backends {
				if one.Replica == r && one.isReady(h.Context()) && r.Runs() {
					return ""
				}
			}
			return fmt.Sprintf("%s: %s does not answer", moment, r.Name)
		})
	}
}

// writesBy returns the writes of a replica's controllers, without those of its endpoints.
func (h *hall) writesBy(r *replica.Replica, since time.Time) []audit.Write {
	h.Helper()
	return slices.DeleteFunc(plane.Writes(h.T, r.Name, since), func(w audit.Write) bool {
		// Every replica records on a Machine which host has registered, and agents' reports pass through every replica.
		return !strings.Contains(w.UserAgent, "drover") || w.Resource == "machines" && w.Verb == "patch" ||
			w.Code >= 400
	})
}

// awaitWrite waits for the first write of the controllers of one of these replicas. It returns the time since a moment,
// and the replica.
func (h *hall) awaitWrite(since time.Time, timeout time.Duration, by ...*replica.Replica) (time.Duration,
	*replica.Replica) {
	h.Helper()
	var after time.Duration
	var who *replica.Replica
	plane.Until(h.T, timeout, func() string {
		for _, r := range by {
			if writes := h.writesBy(r, since); len(writes) > 0 {
				after, who = writes[0].Time.Sub(since), r
				h.Logf("%s wrote first: %s %s %s/%s", r.Name, writes[0].Verb, writes[0].Resource, writes[0].Namespace,
					writes[0].Name)
				return ""
			}
		}
		return "no other replica has written"
	})
	return after, who
}

// expectNothingDoubled fails unless there are that many machines with one created host each.
func (h *hall) expectNothingDoubled(namespaces []string, want int) {
	h.Helper()
	hosts := 0
	for _, namespace := range namespaces {
		hosts += len(h.World.Machines(namespace))
		machines := &clusterv1.MachineList{}
		h.must(h.Client.List(h.Context(), machines, client.InNamespace(namespace)))
		want -= len(machines.Items)
	}
	h.made.mu.Lock()
	defer h.made.mu.Unlock()
	if want != 0 || hosts != len(h.made.hosts) {
		h.Errorf("%d machines are missing; %d of %d created hosts exist", want, hosts, len(h.made.hosts))
	}
	for _, machine := range slices.Sorted(maps.Keys(h.made.hosts)) {
		if n := h.made.hosts[machine]; n != 1 {
			h.Errorf("the host of %s was created %d times", machine, n)
		}
	}
}

// provision applies clusters of three machines. It returns once some, but not all, are created.
func (h *hall) provision(namespace string, names ...string) *stage.Clusters {
	h.Helper()
	versions := map[string]string{}
	for i, name := range names {
		versions[name] = []string{stage.RKE2, stage.K3s}[i%2]
	}
	clusters := h.Apply(namespace, 3, versions)
	plane.Until(h.T, time.Minute, func() string {
		if len(h.World.Machines(namespace)) == 0 {
			return "no host exists yet"
		}
		return ""
	})
	return clusters
}

// TestLeaderKilled ends the term of a leader in every possible way, while clusters are provisioned and agents are
// served.
func TestLeaderKilled(t *testing.T) {
	h := newHall(t)
	namespaces := []string{plane.Namespace(t), plane.Namespace(t), plane.Namespace(t), plane.Namespace(t)}

	clusters := h.provision(namespaces[0], "killed-1", "killed-2", "killed-3", "killed-4")
	killed := h.killLeader()
	clusters.AwaitReady()
	h.balancer.expect(t, "leader killed", killed.Name)
	h.expectNothingDoubled(namespaces, 12)

	h.stealLease()
	h.provision(namespaces[1], "stolen").AwaitReady()
	h.shutDoor()
	h.provision(namespaces[2], "shut").AwaitReady()
	h.balancer.expect(t, "lease lost")
	h.expectNothingDoubled(namespaces, 18)

	h.terminateLeader(namespaces[0], "killed-1")
	h.balancer.expect(t, "leader terminated")
	clusters = h.provision(namespaces[3], "rolled-1", "rolled-2")
	h.roll()
	clusters.AwaitReady()
	h.balancer.expect(t, "all replicas replaced")
	h.expectNothingDoubled(namespaces, 24)
}

// killLeader kills the leader, and restarts it when another replica leads.
func (h *hall) killLeader() *replica.Replica {
	h.Helper()
	killed := h.leader()
	h.expectServing("before", h.replicas...)
	at := time.Now()
	killed.Kill()
	after, next := h.awaitWrite(at, time.Minute, h.others(killed)...)
	h.Logf("leader %s killed: %s wrote after %s", killed.Name, next.Name, after.Round(10*time.Millisecond))
	if after > takeOver {
		h.Errorf("the next leader wrote after %s, want at most %s", after, takeOver)
	}
	h.expectServing("after", h.others(killed)...)
	killed.Start()
	killed.AwaitReady()
	return killed
}

// stealLease gives the lease to a holder that does not exist. The leader ends its controllers and continues to serve.
// When the lease expires, a replica leads again.
func (h *hall) stealLease() {
	h.Helper()
	robbed := h.leader()
	process := robbed.PID()
	lease := &coordinationv1.Lease{}
	h.must(h.Client.Get(h.Context(), client.ObjectKey{Namespace: "drover-system", Name: "drover"}, lease))
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = new("somebody"), new(metav1.NowMicro())
	at := time.Now()
	for h.Client.Update(h.Context(), lease) != nil { // the leader renews the lease at the same time
		h.must(h.Client.Get(h.Context(), client.ObjectKeyFromObject(lease), lease))
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = new("somebody"), new(metav1.NowMicro())
	}
	plane.Until(h.T, 5*time.Second, func() string {
		if robbed.Leads() {
			return "the leader leads without the lease"
		}
		return ""
	})
	h.Logf("the controllers of %s ended %s after the lease was taken", robbed.Name,
		time.Since(at).Round(10*time.Millisecond))
	h.expectServing("without a leader", h.replicas...)
	h.leader()
	h.Logf("a replica leads again %s after the lease was taken", time.Since(at).Round(10*time.Millisecond))
	if !robbed.Runs() || robbed.PID() != process {
		h.Error("the process that lost the lease has ended")
	}
}

// shutDoor disconnects the leader, but not the agents that it serves, from the API server. The leader ends its
// controllers and continues to serve, and another replica leads. The first one leads again when the others cannot.
func (h *hall) shutDoor() {
	h.Helper()
	alone := h.leader()
	process, at := alone.PID(), time.Now()
	h.doors[alone.Name].close(isReplica)
	plane.Until(h.T, 30*time.Second, func() string {
		if alone.Leads() {
			return "it leads, but cannot reach the API server"
		}
		return ""
	})
	h.Logf("the controllers of %s ended %s after its last request", alone.Name,
		time.Since(at).Round(10*time.Millisecond))
	replica.Leader(h.T, 30*time.Second, h.others(alone)...)
	h.Logf("another replica leads after %s", time.Since(at).Round(10*time.Millisecond))
	h.expectServing("alone", h.replicas...)
	h.doors[alone.Name].open()

	for _, r := range h.others(alone) {
		h.doors[r.Name].close(isLease)
	}
	replica.Leader(h.T, time.Minute, alone)
	for _, r := range h.others(alone) {
		h.doors[r.Name].open()
	}
	if !alone.Runs() || alone.PID() != process {
		h.Error("the process that lost the lease has ended")
	}
}

// terminateLeader terminates the leader during a write. The write completes, then the leader releases the lease, and
// then another replica leads.
func (h *hall) terminateLeader(namespace, cluster string) {
	h.Helper()
	old := h.leader()
	held := h.doors[old.Name].holdWrite()
	h.Edit(namespace, cluster, func(c *provv1.Cluster) {
		c.Spec.RKEConfig.MachinePools[1].Labels = map[string]string{"edited": "yes"}
	})
	var what string
	select {
	case what = <-held.arrived:
	case <-time.After(time.Minute):
		h.Fatal("the leader writes no object after an edit")
	}
	wait := old.Terminate()
	plane.Until(h.T, 5*time.Second, func() string {
		for _, one := range h.balancer.backends {
			if one.Replica == old && one.ready.Load() {
				return "it is ready during its shutdown"
			}
		}
		return ""
	})
	if lease := h.lease(); *lease.Spec.HolderIdentity == "" {
		h.Error("the lease was released during a write")
	}
	released := time.Now()
	close(held.release)
	if code := <-held.answered; code >= 300 || code == 0 {
		h.Errorf("the running write, %s, got status %d", what, code)
	}
	after, next := h.awaitWrite(released, time.Minute, h.others(old)...)
	h.Logf("leader %s terminated: %s wrote %s after the end of the running write", old.Name, next.Name,
		after.Round(10*time.Millisecond))
	if after > handOver {
		h.Errorf("the next leader wrote after %s, want at most %s", after, handOver)
	}
	if err := wait(); err != nil {
		h.Errorf("%s has ended: %v", old.Name, err)
	}
	old.Start()
	old.AwaitReady()
}

func (h *hall) lease() *coordinationv1.Lease {
	h.Helper()
	lease := &coordinationv1.Lease{}
	h.must(h.Client.Get(h.Context(), client.ObjectKey{Namespace: "drover-system", Name: "drover"}, lease))
	return lease
}

// roll replaces one replica after the other, as a rollout of a Deployment does.
func (h *hall) roll() {
	h.Helper()
	for _, r := range h.replicas {
		at := time.Now()
		r.Stop()
		h.Logf("%s ended %s after the signal", r.Name, time.Since(at).Round(10*time.Millisecond))
		r.Start()
		r.AwaitReady()
	}
}

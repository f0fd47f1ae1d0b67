package planner

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// storyPoolRenamed: all servers are being deleted, and as many new ones come. The old ones leave etcd one after the
// other, when they may.
func storyPoolRenamed(names ...string) func(t *testing.T, tr *transcript) {
	return func(t *testing.T, tr *transcript) {
		t.Helper()
		w := newWorld(rke2Version)
		var old, fresh []string
		for _, name := range names {
			w.add(name, "etcd,control-plane")
			old, fresh = append(old, name), append(fresh, "t"+name[1:])
		}
		w.add("w1", "worker")
		w.bringUp(t)
		w.cluster.Initialized = true
		tr.event("%s: the pool has another name now", strings.Join(old, ", "))
		for i, name := range old {
			w.machines[name].m.Deleting, w.machines[name].m.Held = true, true
			w.addBare(fresh[i], "etcd,control-plane").serial = 20 + i
		}
		tr.settle(t, w)
		tr.do(t, w, "is registered, its host exists", func(h *host) {
			h.registered, h.m.InfrastructureReady = true, true
		}, fresh...)
		for range 30 {
			if d := Decide(w.snapshot(t)); d.Wait == nil && len(w.machines) == len(fresh)+1 {
				return
			}
			if busy := w.busy(); busy != "" {
				tr.finish(t, w, busy)
			} else if leaves := w.mayLeave(); leaves != "" {
				tr.event("%s: its member has left etcd and it is gone", leaves)
				delete(w.machines, leaves)
				tr.settle(t, w)
			}
			w.now = w.now.Add(time.Minute)
		}
		t.Fatalf("the cluster never moves: %+v", Decide(w.snapshot(t)).Wait)
	}
}

// busy is the first machine with a plan that it has not applied.
func (w *world) busy() string {
	for _, name := range w.names() {
		if w.machines[name].registered && w.machines[name].hasPlan() {
			return name
		}
	}
	return ""
}

// mayLeave is the first machine whose member may leave etcd: a machine that stays works, all new machines have come,
// and no machine is joined to it.
func (w *world) mayLeave() string {
	var joined []string
	stays := false
	for _, h := range w.machines {
		if !h.m.Deleting {
			joined, stays = append(joined, h.m.Marks.JoinedTo), stays || h.is("etcd") && h.works() && h.m.HasNode
			if !h.m.HasNode {
				return ""
			}
		}
	}
	for _, name := range w.names() {
		if h := w.machines[name]; stays && h.m.Deleting && !slices.Contains(joined, h.m.Marks.JoinURL) {
			return name
		}
	}
	return ""
}

// When all machines with etcd are being deleted and no other has registered, Drover gives up nothing while most members
// may work.
func TestDecide_TheLastMembersAreKept(t *testing.T) {
	lost := func(h *host, ago time.Duration) { h.m.NodeLostSince = start.Add(time.Hour - ago) }
	unseen := func(h *host, ago time.Duration) {
		h.m.NodeUnknown, h.m.NodeUnknownSince = true, start.Add(time.Hour-ago)
	}
	broken := func(h *host) { h.probes(false) }
	each := func(f func(h *host)) func(w *world) {
		return func(w *world) {
			for _, name := range []string{"s1", "s2", "s3"} {
				f(w.machines[name])
			}
		}
	}
	for name, tc := range map[string]struct {
		happens func(w *world)
		want    []string
	}{
		"all work":      {func(*world) {}, nil},
		"one is broken": {func(w *world) { lost(w.machines["s1"], time.Hour) }, nil},
		"two are lost": {func(w *world) {
			lost(w.machines["s1"], time.Hour)
			lost(w.machines["s2"], time.Hour)
		}, []string{"s1", "s2", "s3"}},
		"two are lost since a moment": {func(w *world) {
			lost(w.machines["s1"], time.Minute)
			lost(w.machines["s2"], time.Minute)
		}, nil},
		"all restart":               {each(broken), nil},
		"all are broken and unseen": {each(func(h *host) { broken(h); unseen(h, time.Minute) }), nil},
		"all are broken, and unseen for long": {
			each(func(h *host) { broken(h); unseen(h, time.Hour) }), []string{"s1", "s2", "s3"},
		},
		"the connection is down for long": {each(func(h *host) { unseen(h, time.Hour) }), nil},
		"nothing holds them any more":     {each(func(h *host) { h.m.Held = false }), []string{"s1", "s2", "s3"}},
		"a user gave up two of them": {func(w *world) {
			w.machines["s1"].m.ForceRemove, w.machines["s2"].m.ForceRemove = true, true
		}, nil},
		"a user gave up all of them": {each(func(h *host) { h.m.ForceRemove = true }), nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(k3sVersion)
			for _, server := range []string{"s1", "s2", "s3"} {
				w.add(server, "etcd,control-plane")
			}
			w.add("w1", "worker")
			w.bringUp(t)
			w.now = start.Add(time.Hour)
			each(func(h *host) { h.m.Deleting, h.m.Held = true, true })(w)
			w.addBare("t1", "etcd,control-plane")
			tc.happens(w)
			d := w.run(t)
			slices.Sort(w.forced)
			if diff := cmp.Diff(tc.want, w.forced); diff != "" {
				t.Errorf("let go (-want +got):\n%s", diff)
			}
			if kept := d.Wait.Reason == ReasonEtcdStays; kept != (tc.want == nil &&
				name != "a user gave up all of them") {
				t.Errorf("waits for %s: %s", d.Wait.Reason, d.Wait.Message)
			}
			if kept := w.cp.Status.Initialization.ControlPlaneInitialized; d.Wait.Reason == ReasonEtcdStays && !*kept {
				t.Error("Cluster API is told that there is no API, which works")
			}
		})
	}
}

// No machine joins a server that cannot be seen, not even for a moment and whatever the server reported last. Its host
// may be gone, and a new machine with a plan looks like a part of the cluster from then on. The message offers help
// from the start. It advises to give up the data only after they were unseen for long.
func TestDecide_NobodyJoinsAServerThatIsOutOfSight(t *testing.T) {
	for name, tc := range map[string]struct {
		since  time.Duration
		failed bool
		want   string
		lost   string
	}{
		"for a moment": {time.Minute, false, "If none is coming",
			"Drover cannot check the nodes of s1: repair the connection to the cluster"},
		"for long": {time.Hour, true, "If their hosts are gone",
			"Drover cannot check the nodes of s1: repair the connection to the cluster. If their hosts are gone for " +
				"good, delete them, " + giveUp},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(k3sVersion)
			w.add("s1", allRoles)
			w.bringUp(t)
			w.now = start.Add(2 * time.Hour)
			s1 := w.machines["s1"]
			s1.m.Deleting, s1.m.Held, s1.m.NodeUnknown, s1.m.NodeUnknownSince = true, true, true, w.now.Add(-tc.since)
			d := w.run(t)
			if d.Wait == nil || d.Wait.Reason != ReasonEtcdStays || d.Wait.Failed != tc.failed ||
				!strings.Contains(d.Wait.Message, tc.want) {
				t.Fatalf("wait %+v", d.Wait)
			}
			told(t, d)
			w.add("t1", allRoles)
			d = w.run(t)
			if len(w.plans()["t1"]) > 0 || d.Wait == nil || d.Wait.Reason != ReasonInitNodeLost {
				t.Fatalf("t1 is sent to join it: %+v", d.Wait)
			}
			if !strings.HasSuffix(d.Wait.Message, tc.lost) {
				t.Errorf("it waits for %q", d.Wait.Message)
			}
			s1.m.NodeUnknown, s1.m.NodeUnknownSince = false, time.Time{}
			w.run(t)
			if len(w.plans()["t1"]) == 0 {
				t.Error("the server is seen again, and t1 does not join it")
			}
		})
	}
}

// told checks that a message says what users can do when the data are gone.
func told(t *testing.T, d Decision) {
	t.Helper()
	for _, part := range []string{"s1", "RKEBootstraps", "rke.cattle.io/etcd-force-remove=true",
		"spec.rkeConfig.etcdSnapshotRestore"} {
		if !strings.Contains(d.Wait.Message, part) {
			t.Errorf("%q does not name %s", d.Wait.Message, part)
		}
	}
}

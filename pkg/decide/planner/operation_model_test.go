package planner

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// opsModel drives a working cluster through requests, losses and time, and checks I19 to I23 and I33 after every
// decision (docs/invariants.md#invariants).
type opsModel struct {
	*world
	d     *downstream
	added int
	log   []string
	// paused are machines whose pools stay paused when everything works.
	paused map[string]bool
	// off are machines that do not report.
	off map[string]bool
}

var topologies = []roles{alone, one, three, {"c1": "control-plane", "e1": "etcd", "e2": "etcd", "w1": "worker"}}

func newOpsModel(rt *rapid.T) *opsModel {
	w := newWorld(rapid.SampledFrom([]string{rke2Version, k3sVersion}).Draw(rt, "version"))
	roles := rapid.SampledFrom(topologies).Draw(rt, "roles")
	for _, name := range slices.Sorted(maps.Keys(roles)) {
		w.add(name, roles[name])
	}
	w.connected = true
	m := &opsModel{world: w, d: newDownstream(w)}
	m.d.countsOn = rapid.Bool().Draw(rt, "agents of upstream")
	for range 20 {
		m.work()
		d := Decide(m.snapshot(rt))
		if m.apply(d); d.Wait == nil {
			break
		}
	}
	return m
}

// running are the machines that are not off.
func (m *opsModel) running() []string {
	return slices.DeleteFunc(m.names(), func(name string) bool { return m.off[name] })
}

// work lets every agent do everything it can, and Cluster API find the nodes.
func (m *opsModel) work() {
	for _, name := range m.running() {
		h := m.machines[name]
		h.registered, h.m.InfrastructureReady, h.m.NodeLostSince, h.m.Skip, h.m.PoolPaused = true, true, time.Time{},
			false, m.paused[name]
		h.m.NodeProblem = ""
		m.look(name)
		m.d.all(name)
		m.machines[name].joinCluster(m.cp.Spec.KubernetesVersion)
		m.periodics(name)
	}
	if m.d.stage == "reencrypt_active" {
		m.d.stage = stageFinished
	}
}

// periodics reports addresses and the status of encryption.
func (m *opsModel) periodics(name string) {
	h := m.machines[name]
	if h.m.Marks.InitNode && h.m.Labels["rke.cattle.io/control-plane-role"] == "" {
		h.captureAddress()
	}
	if state, err := h.parse(); err == nil && state.PlanExists {
		m.d.periodic(h, state.Plan)
	}
}

// pausePools pauses the pools of some machines permanently.
func (m *opsModel) pausePools(rt *rapid.T) {
	m.paused = map[string]bool{}
	for _, name := range m.names() {
		m.paused[name] = rapid.Bool().Draw(rt, "paused "+name)
		m.machines[name].m.PoolPaused = m.paused[name]
	}
}

func (m *opsModel) offer() {
	m.snapshots = []ETCDSnapshot{{Name: "in-s3", File: "f", S3: &rkev1.ETCDSnapshotS3{Bucket: "b"}}}
	for _, name := range m.names() {
		m.snapshots = append(m.snapshots,
			ETCDSnapshot{Name: "on-" + name, File: "f", MachineUID: m.machines[name].m.UID})
	}
}

func (m *opsModel) actions() map[string]func(*rapid.T) {
	onHost := func(f func(*rapid.T, string)) func(*rapid.T) {
		return func(rt *rapid.T) {
			if names := m.running(); len(names) > 0 {
				f(rt, rapid.SampledFrom(names).Draw(rt, "machine"))
			}
		}
	}
	return map[string]func(*rapid.T){
		"ask":         m.ask,
		"ask again":   m.ask,
		"take back":   m.takeBack,
		"agent works": onHost(func(_ *rapid.T, name string) { m.d.all(name) }),
		"agent fails": onHost(m.agentFails),
		"agent is killed": onHost(func(rt *rapid.T, name string) {
			m.d.apply(name, fate{dieBefore: rapid.IntRange(0, 9).Draw(rt, "before")}, false)
		}),
		"report is lost": onHost(func(_ *rapid.T, name string) {
			m.d.apply(name, fate{dieBefore: -1, mute: true}, false)
		}),
		"agent restarts": onHost(func(_ *rapid.T, name string) { m.d.apply(name, fine, true) }),
		"probes":         onHost(func(_ *rapid.T, name string) { m.d.probes(name); m.periodics(name) }),
		"probes fail":    onHost(func(_ *rapid.T, name string) { m.machines[name].probes(false) }),
		"deleted":        onHost(func(_ *rapid.T, name string) { m.deleted(name) }),
		"gone":           onHost(func(_ *rapid.T, name string) { m.gone(name) }),
		"node is lost or found": onHost(func(rt *rapid.T, name string) {
			h := m.machines[name]
			if h.m.NodeLostSince = (time.Time{}); h.m.HasNode && rapid.Bool().Draw(rt, "lost") {
				h.m.NodeLostSince = m.now
			}
		}),
		"node is not ready": onHost(func(_ *rapid.T, name string) {
			if h := m.machines[name]; h.m.HasNode {
				h.m.NodeProblem = "the kubelet starts"
			}
		}),
		"Cluster API looks": onHost(func(_ *rapid.T, name string) { m.look(name) }),
		"host is lost": onHost(func(rt *rapid.T, name string) {
			m.machines[name].m.InfrastructureReady = rapid.Bool().Draw(rt, "ready")
		}),
		"left out": onHost(func(rt *rapid.T, name string) {
			m.machines[name].m.Skip = rapid.IntRange(0, 3).Draw(rt, "skip") == 0
		}),
		"pool": onHost(func(rt *rapid.T, name string) {
			m.machines[name].m.PoolPaused = rapid.Bool().Draw(rt, "paused")
		}),
		"added": m.addMachine,
		"user pauses": func(rt *rapid.T) {
			paused := rapid.Bool().Draw(rt, "paused")
			if !paused || m.cluster.PausedBy == "" {
				m.cluster.Paused = paused
			}
		},
		"spec edit": func(rt *rapid.T) {
			m.cp.Generation++
			m.cp.Spec.AdditionalManifest = rapid.SampledFrom([]string{"", "kind: A\n", "kind: B\n"}).Draw(rt,
				"manifest")
		},
		"version goes back": m.revertVersion,
		"reencrypted": func(*rapid.T) {
			if m.d.stage == "reencrypt_active" {
				m.d.stage = stageFinished
			}
		},
		"time passes": func(rt *rapid.T) {
			m.now = m.now.Add(time.Duration(rapid.IntRange(1, 90).Draw(rt, "minutes")) * time.Minute)
		},
		"everything runs": func(rt *rapid.T) { m.work(); m.decideAndApply(rt) },
		"agents turn":     m.turn,
		"agents turn on":  m.turn,
		"":                m.passes,
		"half a pass":     m.crash,
		"writes are lost": m.lossyPass,
		"an old view":     m.stalePasses,
	}
}

func (m *opsModel) ask(rt *rapid.T) {
	spec := &m.cp.Spec
	m.cp.Generation++
	switch rapid.SampledFrom([]string{"create", "restore", "certificates", "keys"}).Draw(rt, "operation") {
	case "create":
		spec.ETCDSnapshotCreate = &rkev1.ETCDSnapshotCreate{Generation: rapid.IntRange(1, 3).Draw(rt, "generation")}
	case "restore":
		m.offer()
		names := []string{"in-s3", "file"}
		for _, snapshot := range m.snapshots[1:] {
			names = append(names, snapshot.Name)
		}
		name := rapid.SampledFrom(names).Draw(rt, "snapshot")
		spec.ETCDSnapshotRestore = &rkev1.ETCDSnapshotRestore{Name: name,
			Generation: rapid.IntRange(1, 3).Draw(rt, "generation")}
		m.restoreVersion(rt)
	case "certificates":
		services := rapid.SampledFrom([][]string{nil, {"etcd"}, {"kubelet"}}).Draw(rt, "services")
		spec.RotateCertificates = &rkev1.RotateCertificates{Generation: rapid.Int64Range(1, 3).Draw(rt, "generation"),
			Services: services}
	case "keys":
		spec.RotateEncryptionKeys = &rkev1.RotateEncryptionKeys{Generation: rapid.Int64Range(1, 3).Draw(rt,
			"generation")}
	}
}

func (m *opsModel) takeBack(rt *rapid.T) {
	spec := &m.cp.Spec
	m.cp.Generation++
	switch rapid.IntRange(0, 3).Draw(rt, "operation") {
	case 0:
		spec.ETCDSnapshotCreate = nil
	case 1:
		spec.ETCDSnapshotRestore = nil
	case 2:
		spec.RotateCertificates = nil
	default:
		spec.RotateEncryptionKeys = nil
	}
}

// agentFails fails at one of the instructions of the plan, once or permanently.
func (m *opsModel) agentFails(rt *rapid.T, name string) {
	p := m.machines[name].state().Plan
	if len(p.Instructions) == 0 {
		return
	}
	at := rapid.SampledFrom(p.Instructions).Draw(rt, "at").Name
	for range rapid.SampledFrom([]int{1, 5}).Draw(rt, "times") {
		m.d.apply(name, fate{failAt: at, dieBefore: -1}, false)
	}
}

// turn is one turn of all agents. Each has its own fate.
func (m *opsModel) turn(rt *rapid.T) {
	for _, name := range m.names() {
		switch rapid.SampledFrom([]string{"works", "works", "works", "works", "fails", "is killed", "is mute",
			"does nothing"}).Draw(rt, name) {
		case "works":
			m.d.all(name)
			m.periodics(name)
		case "fails":
			m.agentFails(rt, name)
		case "is killed":
			m.d.apply(name, fate{dieBefore: rapid.IntRange(0, 9).Draw(rt, "before")}, false)
		case "is mute":
			m.d.apply(name, fate{dieBefore: -1, mute: true}, false)
		}
	}
}

// deleted marks a machine for removal. Its etcd member has to leave first.
func (m *opsModel) deleted(name string) {
	h := m.machines[name]
	h.m.Deleting, h.m.Held = true, h.is("etcd")
}

// gone is Cluster API continuing a removal: the member leaves, unless it may stay behind, and then the machine goes.
// Nothing happens while the cluster is paused.
func (m *opsModel) gone(name string) {
	switch h := m.machines[name]; {
	case !h.m.Deleting, m.cluster.Paused:
	case h.m.Held && !h.m.ForceRemove:
		h.m.Held = false
	default:
		delete(m.machines, name)
	}
}

// replace is Cluster API creating a machine with all roles. It does not while the pause of an operation is in force.
func (m *opsModel) replace(name string) {
	if m.machines[name] != nil || m.cluster.Paused && m.cluster.PausedBy != "" {
		return
	}
	m.add(name, allRoles).serial = 200
}

func (m *opsModel) addMachine(rt *rapid.T) {
	if len(m.machines) < 9 {
		m.added++
		m.add(fmt.Sprintf("x%d", m.added),
			rapid.SampledFrom([]string{allRoles, "etcd", "control-plane", "worker"}).Draw(rt, "roles")).serial = 100 +
			m.added
	}
}

func (m *opsModel) decideAndApply(rt *rapid.T) {
	d := m.decide(rt)
	before := m.cp.Status
	m.apply(d)
	m.checkEdges(rt, before, m.cp.Status)
	m.checkWorld(rt)
}

// passes runs a random number of passes, possibly none.
func (m *opsModel) passes(rt *rapid.T) {
	for range rapid.SampledFrom([]int{3, 3, 1, 0}).Draw(rt, "passes") {
		m.decideAndApply(rt)
	}
}

// crash writes only some effects, as when the server is killed. The status comes last.
func (m *opsModel) crash(rt *rapid.T) {
	d := m.decide(rt)
	if d.Ticket != nil {
		m.cp.Status.Ticket = d.Ticket
	}
	for _, e := range d.Effects[:rapid.IntRange(0, len(d.Effects)).Draw(rt, "effects")] {
		m.applyOne(e)
	}
	m.checkWorld(rt)
}

// lossyPass is a pass in which some writes are refused.
func (m *opsModel) lossyPass(rt *rapid.T) {
	d := m.decide(rt)
	before := m.cp.Status
	m.cp.Status = d.Status
	if d.Ticket != nil {
		m.cp.Status.Ticket = d.Ticket
	}
	m.carryOut(d, func(Effect) answer {
		return rapid.SampledFrom([]answer{written, written, refused, unsaid}).Draw(rt, "answer")
	})
	m.checkEdges(rt, before, m.cp.Status)
	m.checkWorld(rt)
}

// stalePasses are some passes of a manager whose caches lag, while agents work. Then the caches show everything again.
func (m *opsModel) stalePasses(rt *rapid.T) {
	truth, c := m.world, newCaches(m.world)
	for range rapid.IntRange(1, 4).Draw(rt, "passes") {
		m.turn(rt)
		m.now = m.now.Add(time.Second)
		before := m.cp.Status
		truth.stalePass(rt, c, func(seen *world, s Snapshot, d Decision) {
			m.log = append(m.log, d.Step+", decided from an old view")
			m.world = seen
			m.checkDecision(rt, d)
			m.checkClaims(rt, s, d)
			m.world = truth
		}, func(_ Decision, write func()) { write() })
		m.checkEdges(rt, before, m.cp.Status)
		m.checkWorld(rt)
	}
}

func (m *opsModel) decide(rt *rapid.T) Decision {
	m.now = m.now.Add(time.Second)
	s := m.snapshot(rt)
	d := Decide(s)
	if again := Decide(s); !reflect.DeepEqual(d, again) { // cmp is slow on plans
		rt.Fatalf("deciding twice is different (-first +second):\n%s", cmp.Diff(d, again))
	}
	wait := "ready"
	if d.Wait != nil {
		wait = d.Wait.Message
	}
	m.log = append(m.log, d.Step+": "+wait)
	checkTimer(rt, s, d)
	m.checkDecision(rt, d)
	m.checkClaims(rt, s, d)
	return d
}

// Whatever happens, no invariant breaks, and in the end every operation and its pause have ended, even when no agent
// answers again.
func TestModel_NoOperationBreaksAnInvariant(t *testing.T) {
	explore(t, 25, func(rt *rapid.T, walk *walk) {
		m := newOpsModel(rt)
		walk.repeat(rt, m.actions())
		answer := rapid.Bool().Draw(rt, "agents answer")
		for range 150 {
			m.now = m.now.Add(restartDeadline / 2)
			m.replace("y1")
			if answer {
				m.work()
			}
			m.decideAndApply(rt)
			if m.atRest() && m.machines["y1"] != nil {
				break
			}
		}
		if running := runningOf(m.cp.Status); len(running) > 0 || m.cluster.PausedBy != "" {
			rt.Fatalf("%v still running, paused by %q; the last steps were\n%s", running, m.cluster.PausedBy,
				strings.Join(m.log[len(m.log)-5:], "\n"))
		}
		if answer {
			m.checkRecovery(rt)
		}
	})
}

// When everything works, every request succeeds, in any order. Agents and the server may be killed at times, pools may
// be paused, and a worker may be off. Edits in paused pools are not waited for, because that may take forever.
func TestModel_OperationsSucceedWhenEverythingWorks(t *testing.T) {
	explore(t, 5, func(rt *rapid.T, walk *walk) {
		m := newOpsModel(rt)
		spec := &m.cp.Spec
		spec.ETCDSnapshotCreate = &rkev1.ETCDSnapshotCreate{Generation: 1}
		spec.RotateCertificates = &rkev1.RotateCertificates{Generation: 1}
		spec.RotateEncryptionKeys = &rkev1.RotateEncryptionKeys{Generation: 1}
		if rapid.Bool().Draw(rt, "restore") {
			m.offer()
			names := []string{"in-s3"}
			for _, name := range m.names() {
				if m.machines[name].m.Labels["rke.cattle.io/etcd-role"] == "true" {
					names = append(names, "on-"+name)
				}
			}
			spec.ETCDSnapshotRestore = &rkev1.ETCDSnapshotRestore{Name: rapid.SampledFrom(names).Draw(rt, "snapshot"),
				Generation: 1}
			m.restoreVersion(rt)
		}
		all := m.actions()
		actions := map[string]func(*rapid.T){}
		for _, name := range []string{"", "agent is killed", "report is lost", "agent restarts", "probes",
			"reencrypted", "everything runs", "half a pass", "spec edit"} {
			actions[name] = all[name]
		}
		switch rapid.SampledFrom([]string{"nothing", "pools are paused", "a worker is off"}).Draw(rt, "besides") {
		case "pools are paused":
			m.pausePools(rt)
			delete(actions, "spec edit")
		case "a worker is off":
			m.off = map[string]bool{"w1": m.machines["w1"] != nil}
			spec.RotateCertificates, spec.RotateEncryptionKeys = nil, nil // they need all machines
		}
		walk.repeat(rt, actions)
		m.settle(rt)
		m.checkSucceeded(rt)
		m.off = nil
		m.settle(rt)
		if status, message := m.condition("Ready"); status != "True" {
			rt.Fatalf("Ready is %s: %s", status, message)
		}
		for _, name := range m.names() {
			if state, _ := m.machines[name].parse(); render.OperationOf(state.Plan) != "" || !m.d.node(name).up {
				rt.Fatalf("%s has the plan of %s, up is %v", name, render.OperationOf(state.Plan), m.d.node(name).up)
			}
		}
	})
}

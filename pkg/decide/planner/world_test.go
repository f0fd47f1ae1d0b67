package planner

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

const (
	rke2Version = "v1.36.2+rke2r1"
	k3sVersion  = "v1.36.2+k3s1"
	allRoles    = "etcd,control-plane,worker"
)

var start = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

// world is a cluster in memory: the objects that an interpreter of decisions writes, and simulated agents.
type world struct {
	now       time.Time
	cp        ControlPlane
	cluster   *Cluster
	connected bool
	deployed  bool // the agent has connected once
	awaits    bool // the manifest of the agent is being made
	// agentProblem is why it cannot be made.
	agentProblem string
	tokens       Tokens
	machines     map[string]*host
	snapshots    []ETCDSnapshot
	objects      []Object
	versions     render.Versions
	command      Roll
	agents       AgentRequests
	memo         *render.Memo
	forced       []string
	writes       int
}

// host is a machine with the data of its plan Secret.
type host struct {
	w          *world
	m          Machine
	registered bool
	probesSeen bool
	joinURL    string
	initLabel  bool
	evidence   string
	delivered  time.Time
	drain      Drain
	drains     int
	data       map[string][]byte
	reports    int // bytes, in addition to data
	serial     int
	read       parsed
}

// parsed is the parsed plan Secret. The models spent most of their time parsing the same data again.
type parsed struct {
	data  map[string][]byte
	state nodeplan.State
	err   error
}

// parse reads the plan Secret. Its result is shared.
func (h *host) parse() (nodeplan.State, error) {
	if h.read.data == nil || !maps.EqualFunc(h.read.data, h.data, bytes.Equal) {
		state, err := nodeplan.Parse(h.m.Name, h.data)
		Trim(&state)
		h.read = parsed{data: maps.Clone(h.data), state: state, err: err}
	}
	return h.read.state, h.read.err
}

// state is the state in the plan Secret.
func (h *host) state() nodeplan.State {
	state, _ := h.parse()
	return state
}

func newWorld(version string) *world {
	return &world{
		now: start,
		cp: ControlPlane{
			Namespace: "fleet-default", Name: "demo", Generation: 1,
			Spec: rkev1.RKEControlPlaneSpec{KubernetesVersion: version, ClusterName: "demo",
				ManagementClusterName: "c-m-1"},
		},
		cluster:  &Cluster{InfrastructureProvisioned: true},
		memo:     &render.Memo{},
		machines: map[string]*host{},
	}
}

// add creates a machine with a host and a plan Secret.
func (w *world) add(name, roles string) *host {
	h := w.addBare(name, roles)
	h.registered = true
	h.m.InfrastructureReady = true
	return h
}

// addBare creates a machine that has neither.
func (w *world) addBare(name, roles string) *host {
	serial := len(w.machines) + 10
	h := &host{w: w, m: Machine{Name: name, UID: types.UID("uid-" + name),
		Labels: map[string]string{"cattle.io/os": "linux"}}, serial: serial}
	for _, role := range []string{"etcd", "control-plane", "worker"} {
		if containsWord(roles, role) {
			h.m.Labels["rke.cattle.io/"+role+"-role"] = "true"
		}
	}
	w.machines[name] = h
	return h
}

func containsWord(list, word string) bool {
	return list == word || len(list) > len(word) &&
		(list[:len(word)+1] == word+"," || list[len(list)-len(word)-1:] == ","+word ||
			slices.Contains(splitComma(list), word))
}

func splitComma(list string) []string {
	var out []string
	from := 0
	for i := range len(list) + 1 {
		if i == len(list) || list[i] == ',' {
			out = append(out, list[from:i])
			from = i + 1
		}
	}
	return out
}

func (w *world) names() []string { return slices.Sorted(maps.Keys(w.machines)) }

// snapshot is what gather would return: separate values that are never changed, like those of caches.
func (w *world) snapshot(t interface{ Fatal(args ...any) }) Snapshot {
	s := Snapshot{Now: w.now, ControlPlane: w.cp, Cluster: w.cluster, Connected: w.connected, AgentDeployed: w.deployed,
		AwaitsAgent: w.awaits, AgentProblem: w.agentProblem, Tokens: w.tokens, Snapshots: w.snapshots,
		Objects:  w.objects,
		Versions: w.versions, Roll: w.command, Agents: w.agents, Memo: w.memo,
		Release: distro.Release{Version: w.cp.Spec.KubernetesVersion, Known: true}}
	s.ControlPlane.Spec, s.ControlPlane.Annotations = *w.cp.Spec.DeepCopy(), maps.Clone(w.cp.Annotations)
	s.Objects = slices.Clone(w.objects)
	for i := range s.Objects {
		s.Objects[i].Data, s.Objects[i].Annotations = maps.Clone(s.Objects[i].Data),
			maps.Clone(s.Objects[i].Annotations)
	}
	for _, name := range w.names() {
		h := w.machines[name]
		m := h.m
		m.Labels, m.Annotations = maps.Clone(m.Labels), maps.Clone(m.Annotations)
		if h.registered {
			state, err := h.parse()
			m.Plan = &PlanSecret{Name: naming.PlanSecret(name), JoinURL: h.joinURL, ProbesPassed: h.probesSeen,
				State: state, ReportSize: h.reports,
				InitNode: h.initLabel, DeliveredAt: h.delivered, Drain: h.drain, Evidence: h.evidence}
			if err != nil {
				m.Plan.Malformed = err.Error()
			}
		}
		s.Machines = append(s.Machines, m)
	}
	return s
}

// apply carries out a decision as an interpreter does, and counts its writes.
func (w *world) apply(d Decision) {
	if d.Ticket != nil {
		w.cp.Status.Ticket = d.Ticket
		w.writes++
	}
	for _, e := range d.Effects {
		w.writes++
		w.applyOne(e)
	}
	ticket := w.cp.Status.Ticket
	if fmt.Sprintf("%+v", d.Status) != fmt.Sprintf("%+v", w.cp.Status) {
		w.writes++
	}
	w.cp.Status = d.Status
	w.cp.Status.Ticket = ticket
}

func (w *world) applyOne(e Effect) {
	switch e := e.(type) {
	case CreateTokens:
		w.tokens = Tokens{Exists: true, Values: render.Tokens{Server: "server-token", Agent: "agent-token"}}
	case MarkMachine:
		w.machines[e.Machine].m.Marks = e.Marks
	case DeliverPlan:
		h := w.machines[e.Machine]
		data, err := nodeplan.Deliver(h.data,
			nodeplan.Delivery{Plan: e.Delivery.Plan, MaxFailures: e.Delivery.MaxFailures,
				FailureThreshold: e.Delivery.FailureThreshold})
		if err != nil {
			panic(err)
		}
		h.data, h.probesSeen, h.delivered, h.initLabel, h.evidence = data, false, w.now, e.Marks.InitNode, e.Evidence
		wished(e.Cause)
	case RequestDrain:
		w.machines[e.Machine].drain = Drain{Requested: e.Options, Since: e.At, Error: w.machines[e.Machine].drain.Error}
		wished(e.Cause)
	case RequestUncordon:
		w.machines[e.Machine].drain.Uncordon, w.machines[e.Machine].drain.Since = e.Options, e.At
	case WithdrawInitLabel:
		w.machines[e.Machine].initLabel = false
	case PublishJoinURL:
		w.machines[e.Machine].joinURL = e.JoinURL
	case SetMachineCondition:
		w.machines[e.Machine].m.Reconciled = e.Condition
	case ResetClusterInitialized:
		w.cluster.Initialized = false
	case ForceRemoveMachine:
		w.machines[e.Machine].m.ForceRemove = true
		w.forced = append(w.forced, e.Machine)
	case PauseCluster:
		w.cluster.Paused, w.cluster.PausedBy = true, e.Operation
	case ResumeCluster:
		w.cluster.Paused, w.cluster.PausedBy = false, ""
	default:
		panic(fmt.Sprintf("unknown effect %T", e))
	}
}

// report changes a key of the plan Secret, and removes it when there is no value.
func (h *host) report(key string, value []byte) {
	if h.data = maps.Clone(h.data); value == nil {
		delete(h.data, key)
		return
	}
	h.data[key] = value
}

// drainNode is the drainer carrying out its request.
func (h *host) drainNode() {
	switch {
	case h.drain.Uncordon != "":
		h.drain = Drain{}
	case h.drain.Requested != "" && h.drain.Done != h.drain.Requested:
		h.drain.Done = h.drain.Requested
		h.drains++
	}
}

// hasPlan reports that the host has a plan that it has not applied yet.
func (h *host) hasPlan() bool {
	return len(h.data[nodeplan.KeyPlan]) > 0 &&
		string(h.data[nodeplan.KeyAppliedChecksum]) != nodeplan.Checksum(h.data[nodeplan.KeyPlan])
}

// applyPlan is a pass of the agent in which all instructions succeed and the probes do not pass yet.
func (h *host) applyPlan() {
	if !h.registered || !h.hasPlan() {
		return
	}
	h.data = maps.Clone(h.data)
	h.data[nodeplan.KeyAppliedChecksum] = []byte(nodeplan.Checksum(h.data[nodeplan.KeyPlan]))
	h.data[nodeplan.KeyFailureCount] = []byte("0")
	delete(h.data, nodeplan.KeyFailedChecksum)
	h.data, _ = nodeplan.Applied(h.data)
	h.probes(false)
}

// failPlan is a pass of the agent in which an instruction fails.
func (h *host) failPlan() {
	if !h.registered || !h.hasPlan() {
		return
	}
	h.data = maps.Clone(h.data)
	h.data[nodeplan.KeyFailedChecksum] = []byte(nodeplan.Checksum(h.data[nodeplan.KeyPlan]))
	h.data[nodeplan.KeyFailureCount] = []byte("1")
}

// probes reports all probes of the plan.
func (h *host) probes(healthy bool) {
	if !h.registered || len(h.data[nodeplan.KeyPlan]) == 0 || h.hasPlan() {
		return
	}
	statuses := map[string]plan.ProbeStatus{}
	for name := range h.state().Plan.Probes {
		statuses[name] = plan.ProbeStatus{Healthy: healthy}
	}
	h.data = maps.Clone(h.data)
	h.data[nodeplan.KeyProbeStatuses], _ = nodeplan.EncodeProbeStatuses(statuses)
	h.probesSeen = h.probesSeen || healthy
}

// joinCluster is Cluster API finding the node of a host whose probes pass.
func (h *host) joinCluster(version string) {
	if !h.probesSeen {
		return
	}
	h.m.HasNode = true
	h.m.KubeletVersion = version
	h.m.NodeName = "node-" + h.m.Name
	h.m.Addresses = []Address{{Type: "InternalIP", Address: fmt.Sprintf("10.0.0.%d", h.serial)}}
}

// captureAddress is the report of an init node without a control plane about itself.
func (h *host) captureAddress() {
	if len(h.data[nodeplan.KeyPlan]) == 0 {
		return
	}
	members := fmt.Sprintf(`{"members":[{"name":"node-1-abc","clientURLs":["https://10.9.9.%d:2379"]}]}`, h.serial)
	h.data = maps.Clone(h.data)
	ran := start.Format(time.UnixDate)
	h.data[nodeplan.KeyAppliedPeriodicOutput], _ = nodeplan.EncodePeriodicOutput(
		map[string]plan.PeriodicInstructionOutput{
			"etcd-name": {Name: "etcd-name", Stdout: []byte("node-1-abc\n"), LastSuccessfulRunTime: ran},
			"capture-address": {Name: "capture-address", Stdout: []byte("noise\n" + members + "\n"),
				LastSuccessfulRunTime: ran},
		})
}

// pass decides and applies once, and fails unless a second decision is equal.
func (w *world) pass(t *testing.T) Decision {
	t.Helper()
	w.now = w.now.Add(time.Second)
	d := Decide(w.snapshot(t))
	w.apply(d)
	return d
}

// run makes passes until nothing changes any more without an agent.
func (w *world) run(t *testing.T) Decision {
	t.Helper()
	for range 20 {
		before := w.writes
		d := w.pass(t)
		if w.writes == before {
			return d
		}
	}
	t.Fatal("the planner never comes to rest")
	return Decision{}
}

// edit changes the spec.
func (w *world) edit(change func(spec *rkev1.RKEControlPlaneSpec)) {
	w.cp.Generation++
	change(&w.cp.Spec)
}

// bringUp lets all agents do everything they can until the cluster is steady.
func (w *world) bringUp(t *testing.T) {
	t.Helper()
	for range 60 {
		d := w.run(t)
		if d.Wait == nil {
			return
		}
		for _, name := range w.names() {
			h := w.machines[name]
			h.drainNode()
			h.applyPlan()
			h.probes(true)
			h.joinCluster(w.cp.Spec.KubernetesVersion)
		}
		w.connected = w.connected || w.cp.Status.Conditions != nil &&
			slices.ContainsFunc(w.names(), func(n string) bool { return w.machines[n].m.HasNode })
	}
	t.Fatalf("the cluster never gets ready: %+v", w.cp.Status.Conditions)
}

func (w *world) condition(kind string) (status, message string) {
	for _, c := range w.cp.Status.Conditions {
		if c.Type == kind {
			return c.Status, c.Message
		}
	}
	return "", ""
}

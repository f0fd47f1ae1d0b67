package planner

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// downstream simulates the effect of plan instructions on hosts, as far as operations depend on it.
type downstream struct {
	w     *world
	nodes map[string]*node
	stage string // of the rotation of encryption keys
	// reset is the machine on which etcd was restored, until its agent reports that it is healthy.
	reset string
	// countsOn is true when agents keep counting failures from one plan to the next, as upstream agents do.
	countsOn bool
	// wrong collects violations.
	wrong []string
}

// node is one host.
type node struct {
	up bool
	// wiped is true for a host with etcd whose data a restore has discarded.
	wiped bool
	// stamp is the installer's memory: it starts the distribution only when a plan has another stamp.
	stamp string
	// records are the idempotent instructions that have succeeded. runs counts their successes by identifier.
	records map[string]bool
	runs    map[string]int
}

func newDownstream(w *world) *downstream {
	d := &downstream{w: w, nodes: map[string]*node{}, stage: "start"}
	for _, name := range w.names() {
		n, h := d.node(name), w.machines[name]
		n.up = h.m.HasNode
		if state, err := h.parse(); err == nil {
			n.stamp = render.StampsOf(state.Plan).Restart
		}
	}
	return d
}

func (d *downstream) node(name string) *node {
	if d.nodes[name] == nil {
		d.nodes[name] = &node{records: map[string]bool{}, runs: map[string]int{}}
	}
	return d.nodes[name]
}

// fate is the course of one pass of an agent.
type fate struct {
	// failAt fails the first instruction whose name contains this text.
	failAt string
	// dieBefore ends the agent before the instruction of that index, without a report.
	dieBefore int
	// mute does everything and reports nothing.
	mute bool
}

var fine = fate{dieBefore: -1}

// apply lets the agent on a machine work on its plan. A restarted agent works again on an applied plan.
func (d *downstream) apply(name string, f fate, restarted bool) {
	h := d.w.machines[name]
	if h == nil || !h.registered || len(h.data[nodeplan.KeyPlan]) == 0 || !restarted && !h.hasPlan() {
		return
	}
	p := h.state().Plan
	outputs := map[string][]byte{}
	for i, instruction := range p.Instructions {
		if f.dieBefore == i {
			return
		}
		if f.failAt != "" && strings.Contains(instruction.Name, f.failAt) && !d.node(name).records[instruction.Name] {
			d.reportFailure(h)
			return
		}
		out := d.run(name, instruction)
		if instruction.SaveOutput {
			outputs[instruction.Name] = out
		}
	}
	if !f.mute {
		d.reportSuccess(h, p, outputs)
	}
}

func (d *downstream) reportFailure(h *host) {
	state, _ := h.parse()
	count := 1
	if d.countsOn || state.FailedChecksum == state.Checksum {
		count = state.FailureCount + 1
	}
	h.data = maps.Clone(h.data)
	h.data[nodeplan.KeyFailedChecksum] = []byte(state.Checksum)
	h.data[nodeplan.KeyFailureCount] = []byte(strconv.Itoa(count))
}

func (d *downstream) reportSuccess(h *host, p plan.NodePlan, outputs map[string][]byte) {
	if h.hasPlan() {
		h.applyPlan()
	}
	if _, kubelet := p.Probes[render.ProbeKubelet]; len(p.Probes) == 0 || kubelet && len(p.Probes) == 1 {
		d.healthy(h.m.Name) // there is no other sign of etcd
	}
	h.data = maps.Clone(h.data)
	if len(outputs) > 0 {
		state, _ := h.parse()
		merged := maps.Clone(state.Output)
		maps.Copy(merged, outputs)
		h.data[nodeplan.KeyAppliedOutput], _ = nodeplan.EncodeOutput(merged)
	}
	d.periodic(h, p)
}

// periodic is the agent running periodic instructions. Its reports are dated.
func (d *downstream) periodic(h *host, p plan.NodePlan) {
	if !slices.ContainsFunc(p.PeriodicInstructions, func(i plan.PeriodicInstruction) bool {
		return i.Name == render.SecretsEncryptStatus
	}) {
		return
	}
	state, _ := h.parse()
	outputs := maps.Clone(state.PeriodicOutput)
	for _, i := range p.PeriodicInstructions {
		if i.Name == render.SecretsEncryptStatus {
			outputs[i.Name] = plan.PeriodicInstructionOutput{Name: i.Name, Stdout: d.status(i.CommonInstruction),
				LastSuccessfulRunTime: "now"}
		}
	}
	h.data = maps.Clone(h.data)
	h.data[nodeplan.KeyAppliedPeriodicOutput], _ = nodeplan.EncodePeriodicOutput(outputs)
}

func (d *downstream) status(i plan.CommonInstruction) []byte {
	return []byte("Attempt: " + i.Args[2] + "\nEncryption Status: Enabled\nCurrent Rotation Stage: " + d.stage + "\n")
}

// run is one instruction.
func (d *downstream) run(name string, i plan.OneTimeInstruction) []byte {
	n := d.node(name)
	if identifier, ok := strings.CutPrefix(i.Name, "idempotent-"); ok {
		if n.records[i.Name] {
			return nil
		}
		n.records[i.Name] = true
		identifier = identifier[:len(identifier)-130] // two hashes
		n.runs[identifier]++
		d.idempotent(name, identifier)
		return nil
	}
	switch {
	case i.Name == render.InstallInstruction && i.Image != "":
		stamps := render.StampsOf(plan.NodePlan{Instructions: []plan.OneTimeInstruction{i}})
		if stamps.Restart != "" && stamps.Restart != n.stamp {
			n.stamp = stamps.Restart
			d.start(name)
		}
	case i.Name == "start":
		d.start(name)
	case i.Name == "shutdown":
		n.up = false
	case i.Name == "create-etcd-tombstone":
		n.wiped = true
	case i.Name == render.SecretsEncryptStatus:
		return d.status(i.CommonInstruction)
	}
	return nil
}

func (d *downstream) idempotent(name, identifier string) {
	switch identifier {
	case "etcd-restore/restore":
		for other, h := range d.w.machines {
			if other != name && h.m.Labels["rke.cattle.io/etcd-role"] == "true" && d.node(other).up {
				d.wrong = append(d.wrong, fmt.Sprintf("etcd is restored on %s while it runs on %s", name, other))
			}
		}
		d.reset, d.node(name).wiped = name, false
	case "encryption-key-rotation/prepare", "encryption-key-rotation/rotate":
		_, d.stage, _ = strings.Cut(identifier, "/")
	case "encryption-key-rotation/reencrypt":
		d.stage = "reencrypt_active"
	case "certificate-rotation/stop-stop", "etcd-restore/restore-kill-all":
		d.node(name).up = false
	default:
		if strings.HasSuffix(identifier, "-restart") {
			d.start(name)
		}
	}
}

func (d *downstream) start(name string) {
	h := d.w.machines[name]
	if d.reset != "" && name != d.reset && h.m.Labels["rke.cattle.io/etcd-role"] == "true" && !d.node(name).up {
		d.wrong = append(d.wrong, fmt.Sprintf("etcd starts on %s before it is healthy on %s, where it was restored",
			name, d.reset))
	}
	if d.node(name).wiped && !slices.ContainsFunc(d.w.names(), func(o string) bool {
		return o != name && d.w.machines[o].m.Labels["rke.cattle.io/etcd-role"] == "true" && d.node(o).up
	}) {
		d.wrong = append(d.wrong, "an empty cluster begins on "+name)
	}
	d.node(name).up, d.node(name).wiped = true, false
}

// probes lets the agent report on its probes. They pass where the distribution runs.
func (d *downstream) probes(name string) {
	h := d.w.machines[name]
	if h == nil || h.hasPlan() {
		return
	}
	h.probes(d.node(name).up)
	if d.lacksKubelet(h) {
		state := h.state()
		statuses := maps.Clone(state.ProbeStatuses)
		if _, probed := state.Plan.Probes[render.ProbeKubelet]; probed {
			statuses[render.ProbeKubelet] = plan.ProbeStatus{}
		}
		encoded, _ := nodeplan.EncodeProbeStatuses(statuses)
		h.report(nodeplan.KeyProbeStatuses, encoded)
	}
	d.healthy(name)
}

// lacksKubelet reports a server of K3s with etcd alone, whose kubelet waits for an API server.
func (d *downstream) lacksKubelet(h *host) bool {
	waits := strings.Contains(d.w.cp.Spec.KubernetesVersion, "+k3s") && h.is("etcd") && !h.is("control-plane")
	return waits && len(h.data[nodeplan.KeyPlan]) > 0 && !slices.ContainsFunc(d.w.names(), func(name string) bool {
		return d.w.machines[name].is("control-plane") && d.node(name).up
	})
}

// healthy is a report whether the distribution runs on a machine.
func (d *downstream) healthy(name string) {
	if d.node(name).up && d.reset == name {
		d.reset = ""
	}
}

// all lets all agents do everything they can, until nothing changes any more.
func (d *downstream) all(names ...string) {
	for _, name := range names {
		d.apply(name, fine, false)
		d.probes(name)
	}
}

// finish lets all agents work until the operation has ended and the cluster is in order.
func (d *downstream) finish(t *testing.T) Decision {
	t.Helper()
	for range 60 {
		decision := d.w.run(t)
		if decision.Wait == nil {
			return decision
		}
		d.all(d.w.names()...)
		if d.stage == "reencrypt_active" {
			d.stage = "reencrypt_finished"
		}
		for _, name := range d.w.names() {
			if h := d.w.machines[name]; len(h.data) > 0 {
				d.periodic(h, h.state().Plan)
			}
		}
		for _, wrong := range d.wrong {
			t.Fatal(wrong)
		}
	}
	t.Fatalf("the cluster never gets in order: %+v", d.w.cp.Status)
	return Decision{}
}

package planner

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// atRest reports that no operation runs, and that none of their pauses is left.
func (m *opsModel) atRest() bool { return len(runningOf(m.cp.Status)) == 0 && m.cluster.PausedBy == "" }

// asked reports that a request has not been started.
func (m *opsModel) asked() bool {
	return slices.ContainsFunc(kinds, func(k *kind) bool { return m.requested()[k] && m.operation(k).Attempt == 0 })
}

// requested are the kinds of operations that the spec requests.
func (m *opsModel) requested() map[*kind]bool {
	spec := &m.cp.Spec
	return map[*kind]bool{
		kindCreate: spec.ETCDSnapshotCreate != nil, kindRestore: spec.ETCDSnapshotRestore != nil,
		kindCertificates: spec.RotateCertificates != nil, kindKeys: spec.RotateEncryptionKeys != nil,
	}
}

var operationSteps = []string{"etcd-snapshot-create", "etcd-restore", "rotate-certificates", "rotate-encryption-keys"}

func runningOf(status rkev1.RKEControlPlaneStatus) []string {
	var names []string
	for _, r := range status.Operations {
		if r.State == rkev1.OperationStateRunning {
			names = append(names, r.Name)
		}
	}
	return names
}

func (m *opsModel) checkDecision(rt *rapid.T, d Decision) {
	running := runningOf(d.Status)
	switch {
	case len(running) > 1:
		rt.Fatalf("two operations run at once: %v", running)
	case len(running) == 1 && d.Wait == nil:
		rt.Fatalf("%s runs and nothing is waited for", running[0])
	case d.Wait != nil && len(d.Wait.Wakes) == 0:
		rt.Fatalf("nothing ends the wait %q", d.Wait.Message)
	case len(running) == 1 && slices.Contains(operationSteps, d.Step) && d.Wait.After <= 0 &&
		cmp.Equal(d.Status, m.cp.Status):
		rt.Fatalf("%s waits without an end: %s", running[0], d.Wait.Message)
	}
	m.checkNodes(rt, d)
	restarts := 0
	for _, e := range d.Effects {
		switch e := e.(type) {
		case PauseCluster:
			if m.cluster.Paused {
				rt.Fatal("the planner takes over an existing pause")
			}
		case ResumeCluster:
			if m.cluster.PausedBy == "" {
				rt.Fatal("the planner ends the user's pause")
			}
		case DeliverPlan:
			restarts += m.checkPlan(rt, d, e)
		}
	}
	if restarts > 1 {
		rt.Fatalf("%d members of etcd are restarted at once by %s", restarts, d.Step)
	}
}

// checkPlan returns 1 for a plan that restarts an etcd member.
func (m *opsModel) checkPlan(rt *rapid.T, d Decision, e DeliverPlan) int {
	h := m.machines[e.Machine]
	p, err := nodeplan.Decode(e.Delivery.Plan)
	before := h.state().Plan
	operation := render.OperationOf(p)
	switch {
	case err != nil:
		rt.Fatal(err)
	case h.m.Deleting:
		rt.Fatalf("%s is deleting and gets a plan", e.Machine)
	case m.cluster.Paused && m.cluster.PausedBy == "" && !slices.Contains(operationSteps, d.Step):
		rt.Fatalf("%s gets a plan while the user has paused the cluster", e.Machine)
	case operation != "" && operation != render.OperationRestore && operation != render.OperationCleanup &&
		len(p.Instructions) > 0 && p.Instructions[0].Image != "":
		rt.Fatalf("an operation installs something on %s", e.Machine)
	case m.isHeldBack(before, p):
		rt.Fatalf("%s gets the version of a snapshot while it runs with newer data; decided was:\n%s", e.Machine,
			strings.Join(m.log, "\n"))
	case h.m.Labels["rke.cattle.io/etcd-role"] == "":
		return 0
	}
	var restarts bool
	switch operation {
	case render.OperationCertificates:
		restarts = true
	case render.OperationKeys:
		restarts = slices.ContainsFunc(p.Instructions, func(i plan.OneTimeInstruction) bool {
			return strings.Contains(i.Name, "/restart/")
		})
	case "":
		restarts = render.OperationOf(before) != "" && !render.SameInstallation(before, p)
	}
	if restarts && (d.Ticket == nil || !strings.Contains(fmt.Sprint(d.Ticket.Machines), e.Delivery.Checksum)) {
		rt.Fatalf("etcd on %s is restarted without a ticket", e.Machine)
	}
	if !restarts {
		return 0
	}
	if operation != "" {
		m.checkOthers(rt, e.Machine)
	}
	return 1
}

// checkOthers checks that an operation stops a working etcd member only while all others are healthy (invariant 8). A
// deleting machine that is not held has no member any more.
func (m *opsModel) checkOthers(rt *rapid.T, name string) {
	restarted, _ := m.machines[name].parse()
	for _, other := range m.names() {
		h := m.machines[other]
		if h.m.Deleting && (!h.m.Held || !restarted.Works()) {
			continue
		}
		_, err := h.parse()
		state := m.judged(h)
		if err == nil && other != name && h.m.Labels["rke.cattle.io/etcd-role"] == "true" && state.PlanExists &&
			(!state.InSync || !state.Healthy) {
			rt.Fatalf("etcd on %s is restarted while that on %s is not well", name, other)
		}
	}
}

// checkClaims checks that everything that is reported as done was done, on every machine that takes part.
func (m *opsModel) checkClaims(rt *rapid.T, s Snapshot, d Decision) {
	old, now := s.ControlPlane.Status, d.Status
	p := newPass(&s)
	done := func(k *kind, suffix, identifier string, machines []*machine) int {
		sum := sha256.Sum256([]byte(newOperation(p, k).attempt() + suffix))
		count := 0
		for _, machine := range machines {
			prefix := "idempotent-" + identifier + "-" + hex.EncodeToString(sum[:])
			for name := range m.d.node(machine.Name).records {
				if strings.HasPrefix(name, prefix) {
					count++
					break
				}
			}
		}
		return count
	}
	switch {
	case old.ETCDSnapshotCreatePhase == rkev1.ETCDSnapshotPhaseStarted &&
		now.ETCDSnapshotCreatePhase == rkev1.ETCDSnapshotPhaseRestartCluster:
		if members := p.collect(isEtcd, takesPart); done(kindCreate, "", "etcd-snapshot/create",
			members) != len(members) {
			rt.Fatal("the snapshot was not taken on all members")
		}
	case old.ETCDSnapshotRestorePhase == rkev1.ETCDSnapshotPhaseRestore &&
		now.ETCDSnapshotRestorePhase == rkev1.ETCDSnapshotPhasePostRestorePodCleanup:
		if done(kindRestore, "", "etcd-restore/restore", p.machines) != 1 ||
			now.ConfigGeneration != old.ConfigGeneration+1 {
			rt.Fatal("etcd was not restored")
		}
	case old.CertificateRotationGeneration != now.CertificateRotationGeneration:
		services := []string{}
		if request := kindCertificates.recordIn(&p.status).Request; strings.Contains(request, "etcd") {
			services = []string{"etcd"}
		} else if strings.Contains(request, "kubelet") {
			services = []string{"kubelet"}
		}
		machines := p.collect(takesPart, func(m *machine) bool { return render.RotatesCertificates(m.roles, services) })
		if done(kindCertificates, "", "certificate-rotation/restart-restart", machines) != len(machines) {
			rt.Fatal("certificates were not rotated on all machines")
		}
	case old.RotateEncryptionKeysPhase != rkev1.RotateEncryptionKeysPhaseDone &&
		now.RotateEncryptionKeysPhase == rkev1.RotateEncryptionKeysPhaseDone:
		for _, phase := range keyPhases {
			suffix, identifier := "/"+string(phase.name), "encryption-key-rotation/"+phase.command
			if phase.command != "" && done(kindKeys, suffix, identifier, p.machines) != 1 {
				rt.Fatalf("keys are rotated without %s", phase.command)
			}
		}
	}
}

// checkEdges checks that phases move only along the declared edges.
func (m *opsModel) checkEdges(rt *rapid.T, old, now rkev1.RKEControlPlaneStatus) {
	edge := func(what, from, to string, order ...string) {
		i := slices.Index(order, from)
		if from == to || to == "" || to == "Failed" || to == order[0] || i >= 0 && i+1 < len(order) &&
			order[i+1] == to {
			return
		}
		rt.Fatalf("%s goes from %q to %q", what, from, to)
	}
	restore, keys := []string{}, []string{}
	for _, p := range restorePhases {
		restore = append(restore, string(p.name))
	}
	for _, p := range keyPhases {
		keys = append(keys, string(p.name))
	}
	create := []string{"Started", "RestartCluster", "Finished"}
	edge("snapshot", string(old.ETCDSnapshotCreatePhase), string(now.ETCDSnapshotCreatePhase), create...)
	restore, keys = append(restore, "Finished"), append(keys, "Done")
	edge("restore", string(old.ETCDSnapshotRestorePhase), string(now.ETCDSnapshotRestorePhase), restore...)
	edge("keys", string(old.RotateEncryptionKeysPhase), string(now.RotateEncryptionKeysPhase), keys...)
	for k, phase := range map[*kind]string{
		kindCreate: string(now.ETCDSnapshotCreatePhase), kindRestore: string(now.ETCDSnapshotRestorePhase),
		kindKeys: string(now.RotateEncryptionKeysPhase),
	} {
		if ended := slices.Contains([]string{"", "Finished", "Done", "Failed"}, phase); ended == k.runsIn(&now) {
			rt.Fatalf("%s is in phase %q, and its record says %s", k.Title, phase, k.recordIn(&now).State)
		}
	}
	if now.ConfigGeneration < old.ConfigGeneration {
		rt.Fatal("the configuration's generation goes back")
	}
}

// checkWorld checks what happened on the hosts.
func (m *opsModel) checkWorld(rt *rapid.T) {
	for _, wrong := range m.d.wrong {
		rt.Fatalf("%s; decided was:\n%s", wrong, strings.Join(m.log, "\n"))
	}
	marked := 0
	for _, name := range m.names() {
		if m.machines[name].m.Marks.InitNode {
			marked++
		}
	}
	if marked > 1 {
		rt.Fatalf("%d init nodes", marked)
	}
	for name, n := range m.d.nodes {
		for identifier, runs := range n.runs {
			k := kindKeys
			switch operation, _, _ := strings.Cut(identifier, "/"); operation {
			case "etcd-snapshot":
				k = kindCreate
			case "etcd-restore":
				k = kindRestore
			case "certificate-rotation":
				k = kindCertificates
			}
			if attempts := m.operation(k).Attempt; int64(runs) > attempts {
				rt.Fatalf("%s succeeded %d times on %s in %d attempts", identifier, runs, name, attempts)
			}
		}
	}
}

// checkRecovery checks that, after every end of operations, no machine stays down with a plan that reports success.
func (m *opsModel) checkRecovery(rt *rapid.T) {
	m.cluster.Paused, m.cluster.PausedBy = false, ""
	for range 20 {
		m.work()
		m.decideAndApply(rt)
		if ready, _ := m.condition("Ready"); ready == "True" {
			break
		}
	}
	for _, name := range m.names() {
		state, err := m.machines[name].parse()
		if err == nil && state.InSync && !m.machines[name].m.Deleting && render.OperationOf(state.Plan) == "" &&
			!m.d.node(name).up {
			rt.Fatalf("%s is down for good", name)
		}
	}
}

// settle lets every machine work that is not off, until the operations have ended and the cluster is in order, as far
// as possible.
func (m *opsModel) settle(rt *rapid.T) {
	for range 250 {
		m.now = m.now.Add(time.Minute)
		for name := range m.off {
			if h := m.machines[name]; h != nil && h.m.NodeLostSince.IsZero() {
				h.m.NodeLostSince = m.now
			}
		}
		m.work()
		m.decideAndApply(rt)
		if ready, _ := m.condition("Ready"); (ready == "True" || m.off["w1"]) && m.atRest() && !m.asked() {
			return
		}
	}
}

// checkSucceeded checks that everything that was requested is done.
func (m *opsModel) checkSucceeded(rt *rapid.T) {
	for k, asked := range m.requested() {
		if record := m.operation(k); asked && record.State != rkev1.OperationStateSucceeded {
			rt.Fatalf("%s is %s: %s %s\n%s", k.Title, record.State, record.Step, record.Message,
				strings.Join(m.log[max(0, len(m.log)-8):], "\n"))
		}
		if status, message := m.condition(k.Condition); asked && status != "True" {
			rt.Fatalf("%s is %s: %s", k.Condition, status, message)
		}
	}
}

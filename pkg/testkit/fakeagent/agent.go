package fakeagent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// Names of instructions that the fake agent interprets. The server gives them.
const (
	installInstruction = "install"
	captureKubeconfig  = "capture-kubeconfig"
	captureAddress     = "capture-address"
	etcdName           = "etcd-name"
)

// handlePlan runs the agent of one machine on its plan Secret.
func (w *World) handlePlan(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	object, exists, err := w.secretInformer.GetStore().GetByKey(key.String())
	if err != nil || !exists {
		return 0, err
	}
	secret, ok := object.(*corev1.Secret)
	if !ok || secret.Type != rkev1.SecretTypeMachinePlan || secret.DeletionTimestamp != nil {
		return 0, nil
	}
	now := time.Now()
	m, mem, wait := w.awake(types.NamespacedName{Namespace: key.Namespace, Name: secret.Labels[rkev1.MachineNameLabel]},
		secret, now)
	if m == nil || wait > 0 {
		return wait, nil
	}
	c, err := w.clusterFor(types.NamespacedName{Namespace: key.Namespace, Name: secret.Labels[rkev1.ClusterNameLabel]})
	if err != nil {
		return 0, err
	}
	agent := &agent{world: w, ctx: ctx, machine: m, cluster: c, roles: rolesOf(secret), installed: mem.applied > 0}
	if agent.known, err = w.read(m, secret.Data[nodeplan.KeyPlan]); err != nil {
		return 0, err
	}
	data, mem, again := pass(secret.Data, mem, agent.host(), timing{probe: w.opts.Probe, retry: w.opts.Retry}, now)
	if agent.err != nil {
		return 0, agent.err
	}
	if !maps.EqualFunc(data, secret.Data, bytes.Equal) {
		if err := w.report(ctx, m.owner, secret, data); err != nil {
			return 0, fmt.Errorf("report: %w", err)
		}
	}
	w.mutex.Lock()
	m.memory = mem
	unregistered := mem.applied > 0 && m.node == ""
	w.mutex.Unlock()
	switch {
	case again > 0:
		return again, nil
	case unregistered:
		return w.opts.Probe, nil
	}
	return w.opts.Idle, nil
}

// known is what a plan says about the node. A machine keeps it, because reading the plan is most of the cost of a pass.
type known struct {
	checksum string
	config   nodeConfig
	// said is the cluster agent that the plan installs.
	said installed
}

// read returns what a plan says. It ignores a plan that it cannot decode.
func (w *World) read(m *machine, raw []byte) (known, error) {
	checksum := nodeplan.Checksum(raw)
	w.mutex.Lock()
	last := m.known
	w.mutex.Unlock()
	if last.checksum == checksum {
		return last, nil
	}
	now := known{checksum: checksum}
	if decoded, err := nodeplan.Decode(raw); err == nil {
		now.config = configOf(decoded)
		if now.said, err = agentOf(decoded); err != nil {
			return known{}, err
		}
	}
	w.mutex.Lock()
	m.known = now
	w.mutex.Unlock()
	return now, nil
}

func (w *World) report(ctx context.Context, machine types.NamespacedName, secret *corev1.Secret,
	data map[string][]byte) error {
	secrets := w.client.CoreV1().Secrets(machine.Namespace)
	if w.opts.Secrets != nil {
		var err error
		if secrets, err = w.opts.Secrets(ctx, machine); err != nil {
			return err
		}
	}
	updated := secret.DeepCopy()
	updated.Data = data
	_, err := secrets.Update(ctx, updated, metav1.UpdateOptions{})
	return err
}

// awake returns the machine whose agent handles its plan now, and the agent's memory. The machine is nil when it does
// not exist or is silent. While the machine boots or installs, awake returns the time until the next pass.
func (w *World) awake(owner types.NamespacedName, secret *corev1.Secret, now time.Time) (*machine, memory,
	time.Duration) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	m := w.machines[owner]
	if m == nil || m.silent || m.boots.IsZero() {
		return nil, memory{}, 0
	}
	if wait := m.boots.Sub(now); wait > 0 {
		return m, memory{}, wait
	}
	checksum := nodeplan.Checksum(secret.Data[nodeplan.KeyPlan])
	if len(secret.Data[nodeplan.KeyPlan]) > 0 && string(secret.Data[nodeplan.KeyAppliedChecksum]) != checksum {
		if m.memory.installing != checksum {
			m.memory.installing, m.memory.installed = checksum, now.Add(w.opts.Install)
		}
		if wait := m.memory.installed.Sub(now); wait > 0 {
			return m, memory{}, wait
		}
	}
	return m, m.memory, 0
}

// agent is one pass of one machine's agent.
type agent struct {
	world   *World
	ctx     context.Context // lives as long as the pass
	machine *machine
	cluster *cluster
	roles   roles
	known   known
	// installed reports whether the plan was applied before or in this pass.
	installed bool
	err       error
}

func (a *agent) host() host {
	return host{run: a.run, periodic: a.periodic, healthy: a.healthy}
}

func (a *agent) run(instruction plan.OneTimeInstruction, attempt int) ([]byte, error) {
	if err := a.world.opts.Faults.Instruction(a.machine.owner.Name, instruction.Name, attempt); err != nil {
		return nil, err
	}
	if instruction.Name == installInstruction {
		a.installed = true
		a.settle()
	}
	return nil, nil
}

// settle does what the services on a running host do without a plan: it serves the API and registers the node.
func (a *agent) settle() {
	if !a.installed || a.err != nil {
		return
	}
	if a.roles.controlPlane && !a.known.config.withoutAPI() {
		if a.err = a.world.serve(a.machine, a.cluster); a.err != nil {
			return
		}
		if a.err = a.world.startAgent(a.ctx, a.cluster, a.known.said); a.err != nil {
			return
		}
	}
	if a.world.isServing(a.cluster) {
		a.join()
	}
}

// join registers the node, and reports another version after an upgrade.
func (a *agent) join() {
	version := a.known.config.version
	a.world.mutex.Lock()
	registered, was := a.machine.node != "", a.machine.version
	a.world.mutex.Unlock()
	node := nodeOf(a.machine, a.roles, a.known.config, time.Now())
	switch {
	case !registered:
		a.err = a.cluster.register(a.ctx, node)
	case version == "" || version == was:
		return
	default:
		a.err = a.cluster.upgrade(a.ctx, node)
	}
	if a.err != nil {
		return
	}
	a.world.mutex.Lock()
	a.machine.node, a.machine.version = node.Name, version
	a.world.mutex.Unlock()
	a.world.opts.Log("fakeagent: %s is node %s with version %s", a.machine.owner.Name, node.Name, version)
}

func (a *agent) healthy() bool {
	a.settle()
	if a.cluster.lost.Load() && (a.roles.etcd || a.roles.controlPlane) {
		return false
	}
	if a.roles.etcd && !a.roles.controlPlane {
		// On K3s the kubelet starts when an API server answers. On RKE2 etcd and the kubelet run before.
		return a.installed && (a.known.config.runtime != "k3s" || a.world.isServing(a.cluster))
	}
	a.world.mutex.Lock()
	defer a.world.mutex.Unlock()
	return a.machine.node != ""
}

func (a *agent) periodic(instruction plan.PeriodicInstruction) ([]byte, error) {
	a.settle()
	switch instruction.Name {
	case captureKubeconfig:
		a.world.mutex.Lock()
		serving := a.machine.stopAPI != nil
		a.world.mutex.Unlock()
		if !serving {
			return nil, errors.New("no such file")
		}
		return a.cluster.identity.Kubeconfig()
	case captureAddress:
		member := map[string]any{"name": a.machine.hostname,
			"clientURLs": []string{"https://" + a.machine.address + ":2379"}}
		return json.Marshal(map[string]any{"members": []any{member}})
	case etcdName:
		return []byte(a.machine.hostname), nil
	default:
		return nil, nil
	}
}

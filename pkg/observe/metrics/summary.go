package metrics

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/summary"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// Values of the label kind.
const (
	kindCluster = "Cluster"
	kindMachine = "Machine"
)

// Values of the label state.
var (
	stateDeleting = label(summary.Deleting)
	stateCreating = label(summary.Creating)
	stateJoining  = label(summary.Joining)
	clusterStates = []summary.State{summary.Ready, summary.Waiting, summary.Failed, summary.Paused, summary.Deleting}
	machineStates = []summary.State{summary.Creating, summary.Joining, summary.Running, summary.Unhealthy,
		summary.Failed, summary.Deleting}
)

func label(state summary.State) string { return strings.ToLower(string(state)) }

// Values of the label agent. Nodes report their version, so it is no label value itself.
const (
	agentCurrent = "current"
	agentOther   = "other"
	agentUnknown = "unknown"
)

// totals are the state of a fleet.
type totals struct {
	clusters, machines map[string]int
	agents             map[string]int
	stuck              map[series]tally
	plans, snapshots   tally
	withoutSnapshot    int
	kubeconfigEnd      time.Time
}

type series struct{ kind, reason string }

// tally is a number of objects, and the age of the oldest.
type tally struct {
	objects int
	age     time.Duration
}

func (t *tally) add(age time.Duration) {
	t.objects++
	t.age = max(t.age, age)
}

// objectState is the state of one object. An object that needs time or attention has a reason.
type objectState struct {
	state, reason string
	since         time.Time
}

func (s *totals) count(kind string, of objectState, now time.Time) {
	if kind == kindCluster {
		s.clusters[of.state]++
	} else {
		s.machines[of.state]++
	}
	if of.reason == "" {
		return
	}
	key := series{kind, bounded(of.reason)}
	t := s.stuck[key]
	t.add(now.Sub(of.since))
	s.stuck[key] = t
}

// summarize reads each cache once. It reads Secrets by name, and the objects of machines that are being created or
// removed.
func (f *Fleet) summarize(source *Source) (*totals, error) {
	now := f.now()
	s := &totals{
		clusters: zeros(clusterStates), machines: zeros(machineStates),
		agents: map[string]int{agentCurrent: 0, agentOther: 0, agentUnknown: 0},
		stuck:  map[series]tally{},
	}
	clusters, err := source.Clusters()
	if err != nil {
		return nil, err
	}
	controlPlanes, err := source.ControlPlanes()
	if err != nil {
		return nil, err
	}
	cores, err := source.CAPIClusters()
	if err != nil {
		return nil, err
	}
	machines, err := source.Machines()
	if err != nil {
		return nil, err
	}
	snapshots, err := source.Snapshots()
	if err != nil {
		return nil, err
	}
	planes, newest := byKey(controlPlanes), newestSnapshots(snapshots)
	paused := pauses{source, byKey(cores), planes, now, f.wereHeld(), map[types.UID]time.Time{}}
	ours := map[types.NamespacedName]bool{}
	for _, cluster := range clusters {
		if !topology.IsOurs(cluster, source.InstanceID) || cluster.Spec.RKEConfig == nil {
			continue // an imported cluster has no control plane and no machines of Drover
		}
		key := types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}
		ours[key] = true
		plane := planes[key]
		state := paused.cluster(key, f.cluster(cluster, plane))
		s.count(kindCluster, state, now)
		s.snapshot(state.state, plane, newest[key], now)
		f.kubeconfig(s, source, key)
	}
	for _, machine := range machines {
		if !ours[types.NamespacedName{Namespace: machine.Namespace, Name: machine.Spec.ClusterName}] {
			continue
		}
		s.count(kindMachine, paused.machine(machine, stateOf(summary.OfMachine(machine))), now)
		f.plan(s, source, machine, now)
	}
	f.areHeld(paused.held)
	return s, nil
}

func (f *Fleet) wereHeld() map[types.UID]time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.held
}

// areHeld replaces the times of all machines, so that removed machines are forgotten.
func (f *Fleet) areHeld(held map[types.UID]time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = held
}

func newestSnapshots(list []*rkev1.ETCDSnapshot) map[types.NamespacedName]time.Time {
	out := map[types.NamespacedName]time.Time{}
	for _, snapshot := range list {
		file := snapshot.SnapshotFile
		if file.CreatedAt == nil || file.Status == "failed" {
			continue
		}
		key := types.NamespacedName{Namespace: snapshot.Namespace, Name: snapshot.Spec.ClusterName}
		if file.CreatedAt.After(out[key]) {
			out[key] = file.CreatedAt.Time
		}
	}
	return out
}

// cluster returns the state of a cluster, with the planner's reason if it is known.
func (f *Fleet) cluster(cluster *provv1.Cluster, plane *rkev1.RKEControlPlane) objectState {
	if plane == nil {
		return stateOf(summary.OfCluster(cluster, nil, cluster.CreationTimestamp.Time))
	}
	of := summary.OfCluster(cluster, conditions.Get(plane.Status.Conditions, rkev1.ConditionReady),
		plane.CreationTimestamp.Time)
	out := stateOf(of)
	if of.ByReady && of.State != summary.Ready {
		out.reason = f.Reasons.reason(cluster.Namespace+"/"+cluster.Name, out.reason)
	}
	if of.ByReady && out.reason == summary.ReasonPaused {
		out.state = label(summary.Paused)
	}
	return out
}

func stateOf(s summary.Summary) objectState { return objectState{label(s.State), s.Code, s.Changed} }

func zeros(states []summary.State) map[string]int {
	out := map[string]int{}
	for _, state := range states {
		out[label(state)] = 0
	}
	return out
}

// snapshot counts the newest snapshot of a cluster that has snapshots enabled and has been ready at least once.
func (s *totals) snapshot(state string, plane *rkev1.RKEControlPlane, newest, now time.Time) {
	if plane == nil || state == stateDeleting || plane.Status.AppliedSpec == nil || plane.Spec.ETCD != nil &&
		plane.Spec.ETCD.DisableSnapshots {
		return
	}
	if newest.IsZero() {
		s.withoutSnapshot++
		return
	}
	s.snapshots.add(now.Sub(newest))
}

// kubeconfig keeps the earliest expiration of a certificate.
func (f *Fleet) kubeconfig(s *totals, source *Source, cluster types.NamespacedName) {
	name := naming.Kubeconfig(cluster.Name)
	secret := source.Secret(cluster.Namespace, name)
	if secret == nil {
		return
	}
	end := f.ends.Of(cluster.Namespace+"/"+name, secret)
	if !end.IsZero() && (s.kubeconfigEnd.IsZero() || end.Before(s.kubeconfigEnd)) {
		s.kubeconfigEnd = end
	}
}

// plan counts a machine's plan that was delivered and not applied. It skips machines that are being removed, because
// they apply no more plans.
func (f *Fleet) plan(s *totals, source *Source, machine *clusterv1.Machine, now time.Time) {
	ref := machine.Spec.Bootstrap.ConfigRef
	if ref.Kind != "RKEBootstrap" || ref.Name == "" || !machine.DeletionTimestamp.IsZero() {
		return
	}
	name := naming.PlanSecret(ref.Name)
	secret := source.Secret(machine.Namespace, name)
	if secret == nil {
		return
	}
	s.agents[agentOf(string(secret.Data[nodeplan.KeyAgentVersion]), source.AgentVersion)]++
	if report := f.plans.Of(machine.Namespace+"/"+name, secret); report.pending {
		s.plans.add(now.Sub(report.delivered))
	}
}

// agentOf compares the version of a node's agent with the server's.
func agentOf(version, current string) string {
	switch version {
	case "":
		return agentUnknown
	case current:
		return agentCurrent
	}
	return agentOther
}

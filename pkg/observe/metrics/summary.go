package metrics

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// Values of the label kind.
const (
	kindCluster = "Cluster"
	kindMachine = "Machine"
)

// States of clusters and machines.
const (
	stateReady     = "ready"
	stateWaiting   = "waiting"
	stateFailed    = "failed"
	statePaused    = "paused"
	stateDeleting  = "deleting"
	stateCreating  = "creating"
	stateJoining   = "joining"
	stateRunning   = "running"
	stateUnhealthy = "unhealthy"
)

// summary is the state of a fleet.
type summary struct {
	clusters, machines map[string]int
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

func (s *summary) count(kind string, of objectState, now time.Time) {
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
func (f *Fleet) summarize(source *Source) (*summary, error) {
	now := f.now()
	s := &summary{
		clusters: map[string]int{stateReady: 0, stateWaiting: 0, stateFailed: 0, statePaused: 0, stateDeleting: 0},
		machines: map[string]int{stateCreating: 0, stateJoining: 0, stateRunning: 0, stateUnhealthy: 0, stateFailed: 0,
			stateDeleting: 0},
		stuck: map[series]tally{},
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
		s.count(kindMachine, paused.machine(machine, machineState(machine)), now)
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

// cluster returns the state of a cluster.
func (f *Fleet) cluster(cluster *provv1.Cluster, plane *rkev1.RKEControlPlane) objectState {
	created := cluster.CreationTimestamp.Time
	made := conditions.Get(cluster.Status.Conditions, provv1.ConditionRKECluster)
	switch {
	case !cluster.DeletionTimestamp.IsZero():
		reason := reasonDeleting
		if removed := conditions.Get(cluster.Status.Conditions, provv1.ConditionRemoved); removed != nil &&
			removed.Status == rkev1.ConditionFalse {
			reason = removed.Reason
		}
		return objectState{stateDeleting, reason, cluster.DeletionTimestamp.Time}
	case made != nil && made.Status == rkev1.ConditionFalse:
		return objectState{stateFailed, made.Reason, updated(made, created)}
	case plane == nil:
		return objectState{stateWaiting, rkev1.ReasonWaiting, created}
	}
	key := cluster.Namespace + "/" + cluster.Name
	ready := conditions.Get(plane.Status.Conditions, rkev1.ConditionReady)
	switch {
	case ready == nil:
		return objectState{stateWaiting, f.Reasons.reason(key, rkev1.ReasonWaiting), plane.CreationTimestamp.Time}
	case ready.Status == rkev1.ConditionTrue:
		return objectState{state: stateReady}
	}
	out := objectState{stateWaiting, f.Reasons.reason(key, ready.Reason), updated(ready, plane.CreationTimestamp.Time)}
	switch {
	case out.reason == reasonPaused:
		out.state = statePaused
	case ready.Status == rkev1.ConditionFalse:
		out.state = stateFailed
	}
	return out
}

// updated returns when a condition last changed its content. An unchanged condition means no progress.
func updated(c *rkev1.GenericCondition, otherwise time.Time) time.Time {
	for _, text := range []string{c.LastUpdateTime, c.LastTransitionTime} {
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			return at
		}
	}
	return otherwise
}

// machineState returns the state of a machine.
func machineState(machine *clusterv1.Machine) objectState {
	list := machine.Status.Conditions
	infrastructure := conditions.GetMeta(list, clusterv1.MachineInfrastructureReadyCondition)
	applied := conditions.GetMeta(list, rkev1.ConditionPlanApplied)
	healthy := conditions.GetMeta(list, clusterv1.MachineNodeHealthyCondition)
	switch {
	case !machine.DeletionTimestamp.IsZero():
		return objectState{stateDeleting, reasonDeleting, machine.DeletionTimestamp.Time}
	case infrastructure == nil:
		return objectState{stateCreating, reasonInfrastructure, machine.CreationTimestamp.Time}
	case infrastructure.Status != clusterTrue && !machine.Status.NodeRef.IsDefined():
		if isFailure[infrastructure.Reason] {
			return objectState{stateFailed, infrastructure.Reason, infrastructure.LastTransitionTime.Time}
		}
		return objectState{stateCreating, reasonInfrastructure, machine.CreationTimestamp.Time}
	case applied != nil && applied.Status == clusterFalse:
		return objectState{stateFailed, reasonPlan, applied.LastTransitionTime.Time}
	case !machine.Status.NodeRef.IsDefined():
		return objectState{stateJoining, reasonNode, infrastructure.LastTransitionTime.Time}
	case healthy != nil && healthy.Status != clusterTrue:
		return objectState{stateUnhealthy, reasonUnhealthy, healthy.LastTransitionTime.Time}
	}
	return objectState{state: stateRunning}
}

// snapshot counts the newest snapshot of a cluster that has snapshots enabled and has been ready at least once.
func (s *summary) snapshot(state string, plane *rkev1.RKEControlPlane, newest, now time.Time) {
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
func (f *Fleet) kubeconfig(s *summary, source *Source, cluster types.NamespacedName) {
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
func (f *Fleet) plan(s *summary, source *Source, machine *clusterv1.Machine, now time.Time) {
	ref := machine.Spec.Bootstrap.ConfigRef
	if ref.Kind != "RKEBootstrap" || ref.Name == "" || !machine.DeletionTimestamp.IsZero() {
		return
	}
	name := naming.PlanSecret(ref.Name)
	secret := source.Secret(machine.Namespace, name)
	if secret == nil {
		return
	}
	if report := f.plans.Of(machine.Namespace+"/"+name, secret); report.pending {
		s.plans.add(now.Sub(report.delivered))
	}
}

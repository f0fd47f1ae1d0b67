package preview

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// side is what a document results in: pools of machines, and plans.
type side struct {
	pools    map[string]pool
	snapshot planner.Snapshot
	outlook  planner.Outlook
	expected map[string]planner.MachineOutlook
	tiers    map[string]string
}

// pool is a machine pool as Cluster API sees it.
type pool struct {
	replicas            int
	infra, bootstrap    clusterv1.ContractVersionedObjectReference
	surge, unavailable  intstr.IntOrString
	paused, drains      bool
	labels, annotations map[string]string
	roles               string
}

// sideOf derives from an input what the server would create.
func (in *Input) sideOf(given topology.Input) (*side, error) {
	controlPlane, deployments, err := desired(given)
	if err != nil {
		return nil, err
	}
	s := &side{pools: map[string]pool{}, snapshot: in.snapshotOf(controlPlane)}
	s.snapshot.Roll = planner.ParseRoll(given.Cluster.Annotations[rkev1.RollAnnotation])
	for _, md := range deployments {
		s.pools[md.Spec.Template.Labels[rkev1.MachinePoolNameLabel]] = poolOf(md)
	}
	return s, nil
}

// ControlPlane returns the control plane that the server would create for a cluster.
func ControlPlane(of topology.Input) (*rkev1.RKEControlPlane, error) {
	controlPlane, _, err := desired(of)
	return controlPlane, err
}

func desired(given topology.Input) (*rkev1.RKEControlPlane, []*clusterv1.MachineDeployment, error) {
	prepared, err := topology.Prepare(given.Cluster, given.Cluster.Annotations[rkev1.InstanceAnnotation], given.Schemas)
	if err != nil {
		return nil, nil, err
	}
	if prepared != nil {
		given.Cluster = prepared
	}
	objects, err := topology.Desired(given)
	if err != nil {
		return nil, nil, err
	}
	var controlPlane *rkev1.RKEControlPlane
	var deployments []*clusterv1.MachineDeployment
	for _, object := range objects {
		switch o := object.(type) {
		case *rkev1.RKEControlPlane:
			controlPlane = o
		case *clusterv1.MachineDeployment:
			deployments = append(deployments, o)
		}
	}
	if controlPlane == nil {
		return nil, nil, errNotProvisioned
	}
	return controlPlane, deployments, nil
}

var errNotProvisioned = errors.New("the cluster has no spec.rkeConfig, so Drover provisions nothing for it")

func poolOf(md *clusterv1.MachineDeployment) pool {
	template := md.Spec.Template
	_, undrained := template.Annotations[clusterv1.ExcludeNodeDrainingAnnotation]
	out := pool{
		infra: template.Spec.InfrastructureRef, bootstrap: template.Spec.Bootstrap.ConfigRef,
		surge:       *md.Spec.Rollout.Strategy.RollingUpdate.MaxSurge,
		unavailable: *md.Spec.Rollout.Strategy.RollingUpdate.MaxUnavailable,
		paused:      *md.Spec.Paused, drains: !undrained, labels: template.Labels, annotations: template.Annotations,
		roles: planner.RolesText(template.Labels),
	}
	if md.Spec.Replicas != nil {
		out.replicas = int(*md.Spec.Replicas)
	}
	return out
}

// snapshotOf returns the live snapshot with another control plane. An empty label or annotation counts as absent.
func (in *Input) snapshotOf(controlPlane *rkev1.RKEControlPlane) planner.Snapshot {
	s := in.Snapshot
	s.ControlPlane.Spec = controlPlane.Spec
	s.ControlPlane.Namespace, s.ControlPlane.Name = controlPlane.Namespace, controlPlane.Name
	s.ControlPlane.Labels = overlay(s.ControlPlane.Labels, controlPlane.Labels)
	s.ControlPlane.Annotations = overlay(s.ControlPlane.Annotations, controlPlane.Annotations)
	s.Release = in.Release(controlPlane.Spec.KubernetesVersion)
	s.Machines = slices.Clone(s.Machines)
	return s
}

func overlay(below, above map[string]string) map[string]string {
	out := labels.Merge(below, above)
	maps.DeleteFunc(out, func(_, value string) bool { return value == "" })
	return out
}

// settle updates the machines of each pool with the metadata that Cluster API propagates in place. Then the planner
// assesses them. before is the side that created the machines.
func (s *side) settle(before *side) *side {
	for i := range s.snapshot.Machines {
		m := &s.snapshot.Machines[i]
		name := m.Labels[rkev1.MachinePoolNameLabel]
		now, there := s.pools[name]
		if !there {
			continue
		}
		was := before.pools[name]
		m.Labels = handOn(m.Labels, was.labels, now.labels)
		m.Annotations = handOn(m.Annotations, was.annotations, now.annotations)
		m.PoolPaused = now.paused
	}
	s.outlook = planner.Assess(s.snapshot)
	s.expected, s.tiers = map[string]planner.MachineOutlook{}, map[string]string{}
	for _, m := range s.snapshot.Machines {
		s.expected[m.Name], s.tiers[m.Name] = s.outlook.Find(m.Name)
	}
	return s
}

// handOn applies the difference between two templates and keeps the entries of other writers.
func handOn(have, was, now map[string]string) map[string]string {
	out := maps.Clone(have)
	for key := range was {
		if _, stays := now[key]; !stays {
			delete(out, key)
		}
	}
	for key, value := range now {
		if old, had := was[key]; !had || old != value {
			if out == nil {
				out = map[string]string{}
			}
			out[key] = value
		}
	}
	return out
}

// replaces reports whether Cluster API replaces the first pool's machines to reach the second pool. It propagates all
// other fields of the template in place.
func (p pool) replaces(other pool) bool {
	return p.infra != other.infra || p.bootstrap != other.bootstrap
}

func (p pool) pace() string {
	return fmt.Sprintf("at most %s more and %s fewer than its size", p.surge.String(), p.unavailable.String())
}

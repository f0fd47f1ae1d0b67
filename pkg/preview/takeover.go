package preview

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/distro"
	"github.com/drover-io/drover/pkg/planner"
	"github.com/drover-io/drover/pkg/planner/render"
	"github.com/drover-io/drover/pkg/topology"
)

// TakeoverInput is everything that depends on whose cluster it is.
type TakeoverInput struct {
	// Cluster as the server would find it, with all that its objects follow from. It is valid.
	Cluster topology.Input
	// Deployments are the live ones, which somebody else has made.
	Deployments []*clusterv1.MachineDeployment
	// Snapshot is the live one, with the notes of planner.TakeOver.
	Snapshot planner.Snapshot
	// Machines tells what matters to Cluster API when it chooses whom to delete, by name.
	Machines map[string]MachineFacts
	// Release describes a Kubernetes version.
	Release func(kubernetesVersion string) distro.Release
}

// Takeover says what becomes of each machine, by itself, when the cluster becomes ours. Next is what its first plan of ours does, by the name of
// the machine, once somebody wishes for a change. (architecture.md §4b)
func Takeover(given TakeoverInput) (report Report, next map[string]planner.Class, err error) {
	in := &Input{Before: &given.Cluster, After: given.Cluster, Snapshot: given.Snapshot, Machines: given.Machines, Release: given.Release}
	after, err := in.sideOf(given.Cluster)
	if err != nil {
		return Report{}, nil, fmt.Errorf("plan the cluster: %w", err)
	}
	before := &side{pools: map[string]pool{}, snapshot: given.Snapshot}
	before.snapshot.Machines = slices.Clone(before.snapshot.Machines)
	for _, md := range given.Deployments {
		before.pools[md.Spec.Template.Labels[rkev1.MachinePoolNameLabel]] = poolOf(complete(md))
	}
	c := &comparison{in: in, before: before, after: after, indexes: map[string]int{}}
	for i, p := range given.Cluster.Cluster.Spec.RKEConfig.MachinePools {
		c.indexes[p.Name] = i
	}
	before.settle(before)
	after.settle(before)
	c.chooseLeaving()
	cluster := given.Cluster.Cluster
	r := Report{Cluster: cluster.Namespace + "/" + cluster.Name, Result: planner.ClassNone, Machines: append(c.machines(), c.added()...)}
	for i := range r.Machines {
		r.Machines[i].Pending = false
		if class := r.Machines[i].Class; class.Stronger(r.Result) {
			r.Result = class
		}
	}
	c.stages(&r)
	r.Notes = c.notes(r)
	for _, w := range after.outlook.Warnings {
		r.Warnings = append(r.Warnings, Warning{w.Field, w.Message})
	}
	return r, after.next(), nil
}

// next is what each machine's first plan in the newest version does.
func (s *side) next() map[string]planner.Class {
	moved := s.snapshot
	moved.Roll = planner.Roll{All: render.Versions{}.Newest()}
	outlook := planner.Assess(moved)
	out := map[string]planner.Class{}
	for _, m := range moved.Machines {
		expected, _ := outlook.Find(m.Name)
		out[m.Name] = expected.Class
	}
	return out
}

// complete is a MachineDeployment with what Cluster API fills in where nobody has.
func complete(md *clusterv1.MachineDeployment) *clusterv1.MachineDeployment {
	out := md.DeepCopy()
	update := &out.Spec.Rollout.Strategy.RollingUpdate
	zero, one, no := intstr.FromInt32(0), intstr.FromInt32(1), false
	if update.MaxSurge == nil {
		update.MaxSurge = &one
	}
	if update.MaxUnavailable == nil {
		update.MaxUnavailable = &zero
	}
	if out.Spec.Paused == nil {
		out.Spec.Paused = &no
	}
	return out
}

// FactsOf is what matters to Cluster API when it chooses whom to delete.
func FactsOf(machine *clusterv1.Machine) MachineFacts {
	_, chosen := machine.Annotations[clusterv1.DeleteMachineAnnotation]
	return MachineFacts{Created: machine.CreationTimestamp.Time, Chosen: chosen}
}

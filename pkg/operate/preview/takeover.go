package preview

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// TakeoverInput is everything that a takeover depends on.
type TakeoverInput struct {
	// Cluster as the server would find it, with everything that its objects derive from. It is valid.
	Cluster topology.Input
	// Deployments are the live MachineDeployments of the former manager.
	Deployments []*clusterv1.MachineDeployment
	// Snapshot is the live snapshot, with the marks of planner.TakeOver.
	Snapshot planner.Snapshot
	// Machines maps names to the facts by which Cluster API chooses machines to delete.
	Machines map[string]MachineFacts
	// Release describes a Kubernetes version.
	Release func(kubernetesVersion string) distro.Release
}

// Takeover reports what the change of the manager alone does to each machine. next is the effect of each machine's
// first plan from Drover, by machine name. That plan comes with the user's next change.
func Takeover(given TakeoverInput) (report Report, next map[string]planner.Class, err error) {
	in := &Input{Before: &given.Cluster, After: given.Cluster, Snapshot: given.Snapshot, Machines: given.Machines,
		Release: given.Release}
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
	r := Report{Cluster: cluster.Namespace + "/" + cluster.Name, Result: planner.ClassNone,
		Machines: append(c.machines(), c.added()...)}
	for i := range r.Machines {
		r.Machines[i].Pending = false
		c.unhealthy(&r.Machines[i], &r)
		if class := r.Machines[i].Class; class.Stronger(r.Result) {
			r.Result = class
		}
	}
	c.stages(&r)
	r.Notes = append(r.Notes, c.notes(r)...)
	for _, w := range after.outlook.Warnings {
		r.Warnings = append(r.Warnings, Warning{w.Field, w.Message})
	}
	return r, after.next(), nil
}

// unhealthy marks a machine with a lost node in a pool with a health check. Cluster API replaces the machine once the
// cluster's pause ends.
func (c *comparison) unhealthy(line *Machine, r *Report) {
	m, there := c.after.machine(line.Name)
	if !there || m.Deleting || m.NodeLostSince.IsZero() || !healthChecked(c.in.After, line.Pool) ||
		line.Class == planner.ClassReplace || line.Class == planner.ClassRemove {
		return
	}
	line.Class, line.Drained, line.Held, line.Problem = planner.ClassReplace, c.after.pools[line.Pool].drains, "", ""
	r.Notes = append(r.Notes,
		fmt.Sprintf(
			"machine %s: its node has not reported since %s, and the health check of pool %s replaces such machines",
			line.Name, m.NodeLostSince.UTC().Format(time.RFC3339), line.Pool))
}

// healthChecked reports whether a health check replaces the pool's machines when their nodes are unhealthy.
func healthChecked(in topology.Input, pool string) bool {
	return slices.ContainsFunc(in.Cluster.Spec.RKEConfig.MachinePools, func(p provv1.RKEMachinePool) bool {
		return p.Name == pool && p.UnhealthyNodeTimeout != nil && p.UnhealthyNodeTimeout.Duration > 0
	})
}

// machine finds a machine by its name.
func (s *side) machine(name string) (planner.Machine, bool) {
	i := slices.IndexFunc(s.snapshot.Machines, func(m planner.Machine) bool { return name != "" && m.Name == name })
	if i < 0 {
		return planner.Machine{}, false
	}
	return s.snapshot.Machines[i], true
}

// next returns the effect of each machine's first plan in the newest render version.
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

// complete returns a MachineDeployment with Cluster API's defaults.
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

// FactsOf returns the facts by which Cluster API chooses machines to delete.
func FactsOf(machine *clusterv1.Machine) MachineFacts {
	_, chosen := machine.Annotations[clusterv1.DeleteMachineAnnotation]
	return MachineFacts{Created: machine.CreationTimestamp.Time, Chosen: chosen}
}

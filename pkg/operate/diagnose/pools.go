package diagnose

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// pools returns one branch for each pool: pools with etcd first, then pools with a control plane, then the others.
// Machines without a pool share the last branch.
func (w *World) pools() []Branch {
	if w.Cluster == nil || w.Cluster.Spec.RKEConfig == nil {
		return nil
	}
	of := map[string][]Branch{}
	for i := range w.Machines {
		m := &w.Machines[i]
		pool := m.Labels[rkev1.MachinePoolNameLabel]
		of[pool] = append(of[pool], Branch{Title: "Machine " + m.Name, Links: w.machineLinks(m)})
	}
	pools := slices.Clone(w.Cluster.Spec.RKEConfig.MachinePools)
	slices.SortStableFunc(pools, func(a, b provv1.RKEMachinePool) int { return cmp.Compare(tier(a), tier(b)) })
	var out []Branch
	for _, pool := range pools {
		out = append(out, Branch{Title: "Pool " + pool.Name, Links: w.poolLinks(pool, len(of[pool.Name])),
			Branches: of[pool.Name]})
		delete(of, pool.Name)
	}
	var others []Branch
	for _, name := range slices.Sorted(maps.Keys(of)) {
		others = append(others, of[name]...)
	}
	if len(others) > 0 {
		out = append(out, Branch{Title: "Machines without a pool", Branches: others})
	}
	return out
}

func tier(pool provv1.RKEMachinePool) int {
	switch {
	case pool.EtcdRole:
		return 0
	case pool.ControlPlaneRole:
		return 1
	}
	return 2
}

// wanted is the number of machines that the pools request.
func (w *World) wanted() int {
	n := 0
	for i := range w.Cluster.Spec.RKEConfig.MachinePools {
		n += int(topology.Wanted(&w.Cluster.Spec.RKEConfig.MachinePools[i]))
	}
	return n
}

func (w *World) poolLinks(pool provv1.RKEMachinePool, machines int) []Link {
	if w.deleting() {
		return nil
	}
	return []Link{w.pool(pool), w.machines(pool, machines)}
}

func (w *World) deployment(pool string) *clusterv1.MachineDeployment {
	for _, d := range w.Deployments {
		if d.Name == naming.MachineDeployment(w.Name, pool) {
			return d
		}
	}
	return nil
}

func (w *World) pool(pool provv1.RKEMachinePool) Link {
	name := naming.MachineDeployment(w.Name, pool.Name)
	l := link(LinkPool, "MachineDeployment "+w.Namespace+"/"+name)
	switch {
	case w.Unread["machinedeployments"] != "":
		return l.unknown(w.Unread["machinedeployments"])
	case pool.Paused:
		return l.broken("a user has paused the pool: Drover neither changes nor replaces its machines",
			"set paused of the pool to false in the Cluster").
			until("the end of the pause", "Cluster")
	case w.deployment(pool.Name) == nil:
		return l.waiting(w, "it does not exist", w.Cluster.CreationTimestamp.Time, briefly,
			serverLogs()).until("the server", "Cluster")
	}
	return l
}

// machines checks whether a pool has the number of machines that it requests.
func (w *World) machines(pool provv1.RKEMachinePool, have int) Link {
	d := w.deployment(pool.Name)
	l := link(LinkMachines, "machines of pool "+pool.Name)
	if d == nil {
		return l
	}
	want := int(topology.Wanted(&pool))
	if d.Spec.Replicas != nil {
		want = int(*d.Spec.Replicas)
	}
	if have >= want {
		return l
	}
	scaling := conditions.GetMeta(d.Status.Conditions, clusterv1.MachineDeploymentScalingUpCondition)
	set := w.set(d)
	if set != nil {
		if c := conditions.GetMeta(set.Status.Conditions, clusterv1.MachineSetScalingUpCondition); c != nil &&
			c.Message != "" {
			scaling = c
		}
	}
	since := d.CreationTimestamp.Time
	if scaling != nil {
		since = scaling.LastTransitionTime.Time
	}
	l = l.waiting(w, fmt.Sprintf("there are %d of %d machines", have, want), since, briefly,
		w.get("machinedeployments.cluster.x-k8s.io", d.Name), serverLogs()).
		ofMeta(scaling).until("Cluster API's core", "MachineDeployment", "MachineSet")
	if set == nil {
		return l
	}
	if e := w.lastWarning("MachineSet", set.Name); e != nil {
		l = l.because(e.Reason, e.Message)
		l.State, l.What = Broken, l.What+", and the creation of more fails"
		l.Do = append(l.Do, w.get("machinesets.cluster.x-k8s.io", set.Name))
	}
	return l
}

// set returns the newest MachineSet of a MachineDeployment, nil if there is none.
func (w *World) set(d *clusterv1.MachineDeployment) *clusterv1.MachineSet {
	var newest *clusterv1.MachineSet
	for _, s := range w.Sets {
		if s.Labels[clusterv1.MachineDeploymentNameLabel] != d.Name {
			continue
		}
		if newest == nil || newest.CreationTimestamp.Before(&s.CreationTimestamp) {
			newest = s
		}
	}
	return newest
}

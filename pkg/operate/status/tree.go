package status

import (
	"cmp"
	"slices"
	"strings"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/operate/diagnose"
)

// Count is the number of machines of a cluster or a pool.
type Count struct {
	// Ready machines are Running.
	Ready  int `json:"ready"`
	Wanted int `json:"wanted"`
	// Total includes machines that are being created or removed.
	Total int `json:"total"`
}

// Entry is a cluster in a list.
type Entry struct {
	Cluster
	// Machines is nil if they are unknown.
	Machines *Count `json:"machines,omitempty"`
}

// Fleet is a list of clusters, by namespace and name.
type Fleet struct {
	Items []Entry `json:"items"`
	// Notes say what could not be read.
	Notes []string `json:"notes,omitempty"`
}

// Group is a pool of a cluster, or its machines without a pool.
type Group struct {
	// Pool is nil for machines without a pool of the spec.
	Pool *Pool `json:"pool,omitempty"`
	// Name is the name of the pool. It is empty for existing hosts.
	Name     string    `json:"name,omitempty"`
	Count    Count     `json:"count"`
	Machines []Machine `json:"machines,omitempty"`
}

// Tree is a cluster with its machines.
type Tree struct {
	Cluster Cluster `json:"cluster"`
	Groups  []Group `json:"groups,omitempty"`
	// Broken is the first broken link that needs a user. It is nil without one.
	Broken *diagnose.Finding `json:"broken,omitempty"`
	// Notes say what could not be read.
	Notes []string `json:"notes,omitempty"`
}

// FleetOf lists clusters. It counts machines if all of them are known.
func FleetOf(clusters []Cluster, machines []Machine, machinesKnown bool) Fleet {
	counts := map[string]Count{}
	for i := range machines {
		m := &machines[i]
		key := m.Namespace + "/" + m.Cluster
		counts[key] = counts[key].with(m)
	}
	out := Fleet{Items: make([]Entry, 0, len(clusters))}
	for i := range clusters {
		entry := Entry{Cluster: clusters[i]}
		if machinesKnown && !entry.Imported {
			count := counts[entry.Namespace+"/"+entry.Name]
			count.Wanted = entry.wanted(count.Total)
			entry.Machines = &count
		}
		out.Items = append(out.Items, entry)
	}
	slices.SortFunc(out.Items, func(a, b Entry) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return out
}

func (c Count) with(m *Machine) Count {
	c.Total++
	if m.State == Running {
		c.Ready++
	}
	return c
}

// wanted is the requested number of machines. A cluster that has total machines without a pool requests these.
func (c *Cluster) wanted(total int) int {
	sum, scaled := 0, len(c.Pools) == 0
	for i := range c.Pools {
		sum, scaled = sum+int(c.Pools[i].Wanted), scaled || c.Pools[i].Scaled
	}
	if scaled {
		return max(sum, total)
	}
	return sum
}

// TreeOf groups the machines of a cluster by pool. report is nil if the cluster was not diagnosed.
func TreeOf(cluster Cluster, machines []Machine, report *diagnose.Report) Tree {
	out := Tree{Cluster: cluster}
	at := map[string]int{}
	for i := range cluster.Pools {
		pool := cluster.Pools[i]
		at[pool.Name] = len(out.Groups)
		out.Groups = append(out.Groups, Group{Pool: &pool, Name: pool.Name})
	}
	machines = slices.Clone(machines)
	slices.SortFunc(machines, func(a, b Machine) int {
		return cmp.Or(strings.Compare(a.Pool, b.Pool), strings.Compare(a.Name, b.Name))
	})
	for i := range machines {
		index, known := at[machines[i].Pool]
		if !known {
			index = len(out.Groups)
			at[machines[i].Pool] = index
			out.Groups = append(out.Groups, Group{Name: machines[i].Pool})
		}
		group := &out.Groups[index]
		group.Machines, group.Count = append(group.Machines, machines[i]), group.Count.with(&machines[i])
	}
	for i := range out.Groups {
		out.Groups[i].Count.Wanted = out.Groups[i].wanted()
	}
	if report != nil {
		out.Broken = report.Broken()
		out.Notes = report.Notes
	}
	return out
}

// wanted is the requested number of machines of a group. A pool that is no longer in the spec requests none.
func (g *Group) wanted() int {
	switch {
	case g.Name == "":
		return g.Count.Total
	case g.Pool == nil:
		return 0
	case g.Pool.Scaled:
		return max(int(g.Pool.Wanted), g.Count.Total)
	}
	return int(g.Pool.Wanted)
}

// waitsFor is what a machine waits for. A machine that runs may wait for its turn in a rollout.
func (m *Machine) waitsFor() string {
	if m.State != Running {
		return m.Message
	}
	for i := range m.Conditions {
		if m.Conditions[i].Type == rkev1.ConditionReconciled {
			return m.Conditions[i].Message
		}
	}
	return ""
}

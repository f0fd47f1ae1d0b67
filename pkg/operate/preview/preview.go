package preview

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// Input is everything that a preview depends on.
type Input struct {
	// Before is the current cluster, nil for a new one.
	Before *topology.Input
	// After is the edited cluster. It is valid, but can lack what topology.Prepare fills in.
	After topology.Input
	// Snapshot is the live snapshot, with the objects that both clusters name.
	Snapshot planner.Snapshot
	// Machines maps names to the facts by which Cluster API chooses machines to delete.
	Machines map[string]MachineFacts
	// Restored are the fields of After that a requested restore puts back.
	Restored []Restored
	// Release describes a Kubernetes version.
	Release func(kubernetesVersion string) distro.Release
}

// MachineFacts are the facts that Cluster API considers when it scales down.
type MachineFacts struct {
	Created time.Time
	// Chosen means that a user marked the machine for deletion.
	Chosen bool
}

// maxAlone is how many changed fields are tried alone. Each needs the plans of all machines.
const maxAlone = 100

// comparison is the state of a preview.
type comparison struct {
	in            *Input
	before, after *side
	changes       []change
	alone         []*side // the first maxAlone changes, each applied alone, nil if that is invalid
	indexes       map[string]int
	leaving       map[string]bool
}

// Compute returns the report of an edit.
func Compute(in Input) (Report, error) {
	c, err := in.compare()
	if err != nil {
		return Report{}, err
	}
	cluster := in.After.Cluster
	r := Report{Cluster: cluster.Namespace + "/" + cluster.Name, New: in.Before == nil, Result: planner.ClassNone}
	r.Machines = append(c.machines(), c.added()...)
	c.stages(&r)
	r.Fields, r.Restored = c.fields(r.Machines), in.Restored
	r.Operations = c.operations()
	r.Notes = c.notes(r)
	for _, w := range c.after.outlook.Warnings {
		r.Warnings = append(r.Warnings, Warning{w.Field, w.Message})
	}
	_, told := topology.Tolerated(topology.Validate(in.After))
	for _, safe := range told {
		r.Warnings = append(r.Warnings,
			Warning{safe.Field, safe.ErrorBody() + "; Drover ignores it until it is corrected"})
	}
	for _, ignored := range topology.WithoutEffect(cluster) {
		r.Warnings = append(r.Warnings, Warning{ignored.Field, ignored.Message})
	}
	for _, m := range r.Machines {
		if !m.Pending && m.Class.Stronger(r.Result) {
			r.Result = m.Class
		}
	}
	return r, nil
}

// share copies to each input what only the other one has, so that a single changed field resolves.
func share(a, b *topology.Input) {
	for _, pair := range [][2]*topology.Input{{a, b}, {b, a}} {
		to, from := pair[0], pair[1]
		to.MachineConfigs, to.Schemas = fill(to.MachineConfigs, from.MachineConfigs), fill(to.Schemas, from.Schemas)
		to.Credentials, to.Replicas = fill(to.Credentials, from.Credentials), fill(to.Replicas, from.Replicas)
		to.PodSecurity = cmp.Or(to.PodSecurity, from.PodSecurity)
		to.PodSecurityStored = to.PodSecurityStored || from.PodSecurityStored
	}
}

func fill[K comparable, V any](to, from map[K]V) map[K]V {
	out := maps.Clone(from)
	if out == nil {
		return to
	}
	maps.Copy(out, to)
	return out
}

func (in *Input) compare() (*comparison, error) {
	c := &comparison{in: in, indexes: map[string]int{}}
	if in.After.Cluster.Spec.RKEConfig == nil || in.Before != nil && in.Before.Cluster.Spec.RKEConfig == nil {
		return nil, errNotProvisioned
	}
	for i, p := range in.After.Cluster.Spec.RKEConfig.MachinePools {
		c.indexes[p.Name] = i
	}
	if in.Before != nil {
		before := *in.Before
		share(&before, &in.After)
		in.Before = &before
	}
	document, err := documentOf(in.After)
	if err != nil {
		return nil, err
	}
	after, err := in.read(document, in.After, c.indexes)
	if err != nil {
		return nil, fmt.Errorf("plan the edited cluster: %w", err)
	}
	if in.Before == nil {
		c.before, c.after = &side{pools: map[string]pool{}}, after
		c.after.settle(c.before)
		return c, nil
	}
	return c, c.compareWith(document, after)
}

func (c *comparison) compareWith(document document, after *side) error {
	order := maps.Clone(c.indexes)
	for i, p := range c.in.Before.Cluster.Spec.RKEConfig.MachinePools {
		if _, stays := order[p.Name]; !stays {
			order[p.Name] = len(c.indexes) + i
		}
	}
	was, err := documentOf(*c.in.Before)
	if err != nil {
		return err
	}
	base := c.in.After
	if c.before, err = c.in.read(was, *c.in.Before, order); err != nil {
		return fmt.Errorf("plan the live cluster: %w", err)
	}
	c.before.settle(c.before)
	c.after = after.settle(c.before)
	c.changes = compare(was, document)
	for _, one := range c.changes[:min(len(c.changes), maxAlone)] {
		alone, err := c.in.read(one.apply(was), base, order)
		if err != nil {
			c.alone = append(c.alone, nil) // this field is invalid without others
			continue
		}
		c.alone = append(c.alone, alone.settle(c.before))
	}
	c.chooseLeaving()
	return nil
}

// read converts a document to a side. Both sides pass through a document, so normalization and losses are the same on
// both.
func (in *Input) read(d document, base topology.Input, order map[string]int) (*side, error) {
	given, err := d.input(base, order)
	if err != nil {
		return nil, err
	}
	return in.sideOf(given)
}

// chooseLeaving selects the machines that a smaller pool loses, in Cluster API's order: marked machines, then machines
// without a node, then the oldest.
func (c *comparison) chooseLeaving() {
	c.leaving = map[string]bool{}
	members := map[string][]planner.Machine{}
	for _, m := range c.before.snapshot.Machines {
		if !m.Deleting {
			members[poolName(m)] = append(members[poolName(m)], m)
		}
	}
	for name, was := range c.before.pools {
		now, stays := c.after.pools[name]
		if !stays || now.replicas >= was.replicas {
			continue
		}
		ms := members[name]
		slices.SortStableFunc(ms, func(a, b planner.Machine) int {
			left, right := c.in.Machines[a.Name], c.in.Machines[b.Name]
			return cmp.Or(-compareBool(left.Chosen, right.Chosen), compareBool(a.HasNode, b.HasNode),
				left.Created.Compare(right.Created))
		})
		for _, m := range ms[:max(0, min(len(ms), len(ms)-now.replicas))] {
			c.leaving[m.Name] = true
		}
	}
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

func poolName(m planner.Machine) string { return m.Labels[rkev1.MachinePoolNameLabel] }

// effect is what happens to a machine between the current cluster and another side.
func (c *comparison) effect(to *side, m planner.Machine) planner.Class {
	was, had := c.before.pools[poolName(m)]
	now, has := to.pools[poolName(m)]
	switch {
	case m.Deleting:
		return planner.ClassNone
	case had && !has, has && c.leaving[m.Name] && now.replicas < was.replicas:
		return planner.ClassRemove
	case had && was.replaces(now):
		return planner.ClassReplace
	}
	return strongest(planner.ClassBetween(c.before.expected[m.Name], to.expected[m.Name]), c.asked(to, m.Name))
}

// machines lists the effect on each existing machine.
func (c *comparison) machines() []Machine {
	var out []Machine
	for _, m := range c.after.snapshot.Machines {
		expected := c.after.expected[m.Name]
		edit := c.effect(c.after, m)
		line := Machine{
			Name: m.Name, Pool: poolName(m), Roles: planner.RolesText(m.Labels), Class: expected.Class,
			Drained: expected.Drained,
			Held:    expected.Held, Problem: expected.Problem,
		}
		if edit == planner.ClassReplace || edit == planner.ClassRemove {
			p, stays := c.after.pools[line.Pool]
			if !stays {
				p = c.before.pools[line.Pool]
			}
			line.Class, line.Drained, line.Held, line.Problem = edit, p.drains, "", ""
			if stays && p.paused {
				line.Held = "the machine pool is paused"
			}
		} else {
			c.operate(&line)
		}
		line.Pending = edit == planner.ClassNone && line.Class != planner.ClassNone
		if edit != planner.ClassNone {
			line.Causes = c.causes(func(alone *side) planner.Class { return c.effect(alone, m) })
		}
		out = append(out, line)
	}
	slices.SortStableFunc(out, func(a, b Machine) int {
		return cmp.Or(strings.Compare(a.Pool, b.Pool), strings.Compare(a.Name, b.Name))
	})
	return out
}

// causes lists the fields that have an effect alone, the strongest first. If no field has an effect alone, it lists the
// first maxAlone fields.
func (c *comparison) causes(effect func(*side) planner.Class) []Cause {
	var out []Cause
	for i, alone := range c.alone {
		if alone == nil {
			continue
		}
		if class := effect(alone); class != planner.ClassNone {
			out = append(out, Cause{c.changes[i].text(c.indexes), class})
		}
	}
	slices.SortStableFunc(out, func(a, b Cause) int {
		return compareBool(b.Class.Stronger(a.Class), a.Class.Stronger(b.Class))
	})
	if len(out) == 0 {
		for _, one := range c.changes[:min(len(c.changes), maxAlone)] {
			out = append(out, Cause{one.text(c.indexes), planner.ClassNone})
		}
	}
	return out
}

// added lists the new machines.
func (c *comparison) added() []Machine {
	var out []Machine
	for _, name := range c.poolNames() {
		now, was := c.after.pools[name], c.before.pools[name]
		line := Machine{Pool: name, Roles: now.roles, Class: planner.ClassAdd}
		if now.paused {
			line.Held = "the machine pool is paused"
		}
		if c.in.Before != nil && now.replicas > was.replicas {
			line.Causes = c.causes(func(alone *side) planner.Class {
				if alone.pools[name].replicas > was.replicas {
					return planner.ClassAdd
				}
				return planner.ClassNone
			})
		}
		for range now.replicas - was.replicas {
			out = append(out, line)
		}
	}
	return out
}

// poolNames are the edited cluster's pools, in the order of the file.
func (c *comparison) poolNames() []string {
	names := make([]string, 0, len(c.after.pools))
	for name := range c.after.pools {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return c.indexes[a] - c.indexes[b] })
	return names
}

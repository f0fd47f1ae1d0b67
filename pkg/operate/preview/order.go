package preview

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner"
)

// stages fills in the order of changes: first the planner's tiers, one after the other. Cluster API's pools start at
// once, parallel to the tiers.
func (c *comparison) stages(r *Report) {
	byName := map[string]*Machine{}
	for i := range r.Machines {
		byName[r.Machines[i].Name] = &r.Machines[i]
	}
	r.Order = operationStages(c.after.outlook.Operations, byName)
	for _, tier := range c.after.outlook.Tiers {
		stage := Stage{Name: tier.Name, Pace: tier.LimitText()}
		for _, expected := range tier.Machines {
			if m := byName[expected.Name]; staysItself(m) && expected.Class != planner.ClassNone {
				stage.Machines = append(stage.Machines, m.Name)
				m.Stage = cmp.Or(m.Stage, len(r.Order)+1)
			}
		}
		if len(stage.Machines) > 0 {
			r.Order = append(r.Order, stage)
		}
	}
	pools := c.poolNames()
	for name := range c.before.pools {
		if _, stays := c.after.pools[name]; !stays {
			pools = append(pools, name)
		}
	}
	slices.Sort(pools[len(c.after.pools):])
	for _, name := range pools {
		c.poolStage(r, name)
	}
}

func (c *comparison) poolStage(r *Report, name string) {
	stage, replaced, touched := Stage{Name: "pool " + name, Pace: "parallel to the tiers, all at once"}, false, false
	for i := range r.Machines {
		m := &r.Machines[i]
		if m.Pool != name || m.Class != planner.ClassReplace && m.Class != planner.ClassAdd &&
			m.Class != planner.ClassRemove {
			continue
		}
		replaced, touched = replaced || m.Class == planner.ClassReplace, true
		m.Stage = len(r.Order) + 1
		if m.Name != "" {
			stage.Machines = append(stage.Machines, m.Name)
		}
	}
	if replaced {
		stage.Pace = "parallel to the tiers, " + c.after.pools[name].pace()
	}
	if touched {
		r.Order = append(r.Order, stage)
	}
}

// fields lists all differing fields, each with its strongest effect on any machine.
func (c *comparison) fields(machines []Machine) []Cause {
	strongest := map[string]planner.Class{}
	for _, m := range machines {
		for _, cause := range m.Causes {
			if cause.Class.Stronger(cmp.Or(strongest[cause.Field], planner.ClassNone)) {
				strongest[cause.Field] = cause.Class
			}
		}
	}
	var out []Cause
	for _, one := range c.changes {
		field := one.text(c.indexes)
		out = append(out, Cause{field, cmp.Or(strongest[field], planner.ClassNone)})
	}
	return out
}

func (c *comparison) notes(r Report) []string {
	notes := c.operationNotes()
	notes = append(notes, c.rollNotes(r)...)
	if cluster := c.in.Snapshot.Cluster; cluster != nil && cluster.Paused {
		notes = append(notes, "the cluster is paused: only operations run until the pause ends")
	}
	if c.after.outlook.Blocked != "" && !r.New && len(r.Machines) > 0 {
		notes = append(notes, "Drover cannot make plans now: "+c.after.outlook.Blocked)
	}
	if len(c.changes) > maxAlone {
		notes = append(notes, fmt.Sprintf("%d fields differ; the causes consider the first %d alone", len(c.changes),
			maxAlone))
	}
	if slices.ContainsFunc(r.Machines, func(m Machine) bool { return m.Pending }) {
		notes = append(notes,
			"pending changes happen without the edit, too; if the cluster has settled, this command lacks settings "+
				"of the server "+
				"(--system-default-registry and others)")
	}
	if slices.ContainsFunc(r.Machines, func(m Machine) bool {
		return m.Class == planner.ClassRemove && c.leaving[m.Name]
	}) {
		notes = append(notes, "Cluster API chooses the machines that a smaller pool loses at that time")
	}
	return notes
}

// rollNotes describe the parts of an edited roll command that Drover will ignore.
func (c *comparison) rollNotes(r Report) []string {
	field := join([]any{partMeta, "annotations", rkev1.RollAnnotation})
	if !slices.ContainsFunc(r.Fields, func(f Cause) bool { return f.Field == field }) {
		return nil
	}
	var notes []string
	roll, known := c.after.snapshot.Roll, c.after.snapshot.Versions
	if roll.Problem != "" {
		notes = append(notes, field+" is invalid: "+roll.Problem)
	}
	versions := slices.Sorted(maps.Values(roll.Pools))
	if roll.All != "" {
		versions = slices.Sorted(slices.Values(append(versions, roll.All)))
	}
	for _, version := range slices.Compact(versions) {
		if !known.Knows(version) {
			notes = append(notes, fmt.Sprintf("%s requests the unknown render version %q; use one of %s", field,
				version, strings.Join(known.Names(), ", ")))
		}
	}
	return notes
}

package preview

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/drover-io/drover/pkg/decide/planner"
)

// fieldOf returns the Cluster's field that requests the operation.
func fieldOf(o planner.OperationOutlook) string { return join([]any{partSpec, partRKE, o.Field}) }

// asked returns the strongest effect on a machine of the operations that the side requests and the current cluster does
// not.
func (c *comparison) asked(to *side, machine string) planner.Class {
	class := planner.ClassNone
	for _, o := range to.outlook.Operations {
		was := slices.ContainsFunc(c.before.outlook.Operations, func(b planner.OperationOutlook) bool {
			return b.Field == o.Field && b.Request == o.Request
		})
		if !was && o.Touches(machine) {
			class = strongest(class, o.Class)
		}
	}
	return class
}

// operate adds the effect of operations to a machine's line.
func (c *comparison) operate(line *Machine) {
	for _, o := range c.after.outlook.Operations {
		if o.Touches(line.Name) {
			line.Class = strongest(line.Class, o.Class)
		}
	}
}

func strongest(a, b planner.Class) planner.Class {
	if b.Stronger(a) {
		return b
	}
	return a
}

// operationStages returns the stages of operations. They precede the tiers.
func operationStages(operations []planner.OperationOutlook, machines map[string]*Machine) []Stage {
	var out []Stage
	for _, o := range operations {
		for _, given := range o.Stages {
			stage := Stage{Name: given.Name, Pace: given.Pace}
			for _, name := range given.Machines {
				if m := machines[name]; m != nil && staysItself(m) {
					stage.Machines = append(stage.Machines, name)
					m.Stage = cmp.Or(m.Stage, len(out)+1)
				}
			}
			if len(stage.Machines) > 0 {
				out = append(out, stage)
			}
		}
	}
	return out
}

// staysItself reports whether a machine changes and is neither replaced nor removed.
func staysItself(m *Machine) bool {
	return m.Class == planner.ClassInPlace || m.Class == planner.ClassRestart
}

// operations lists the edited cluster's unfinished operations.
func (c *comparison) operations() []Operation {
	var out []Operation
	for _, o := range c.after.outlook.Operations {
		out = append(out, Operation{Field: fieldOf(o), Running: o.Running, Held: o.Held, Problem: o.Problem,
			Stuck: o.Stuck})
	}
	return out
}

// operationNotes describe operations where the machines' lines do not.
func (c *comparison) operationNotes() []string {
	var notes []string
	for _, o := range c.after.outlook.Operations {
		switch {
		case o.Problem != "":
			notes = append(notes, fmt.Sprintf("%s: the %s would fail before it changes any machine: %s", fieldOf(o),
				o.Title, o.Problem))
		case o.Stuck != "":
			notes = append(notes, fmt.Sprintf("%s: the %s is running, but cannot continue: %s", fieldOf(o), o.Title,
				o.Stuck))
		case o.Held != "" && len(o.Stages) > 0:
			notes = append(notes, fmt.Sprintf("%s: the %s does not start now: %s", fieldOf(o), o.Title, o.Held))
		case o.Running && len(o.Stages) == 0:
			notes = append(notes, fmt.Sprintf("%s: the %s is running, and will not stop or start any other machine",
				fieldOf(o), o.Title))
		case len(o.Stages) == 0:
			notes = append(notes, fmt.Sprintf("%s: the %s starts later, on machines that do not exist yet", fieldOf(o),
				o.Title))
		}
	}
	return notes
}

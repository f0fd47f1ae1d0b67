package preview

import (
	"cmp"

	"github.com/drover-io/drover/pkg/decide/planner"
)

// Report is what an edit would do.
type Report struct {
	// Cluster is its namespace and name.
	Cluster string `json:"cluster"`
	// New is true when the cluster does not exist yet.
	New bool `json:"new,omitempty"`
	// Result is the strongest class that the edit causes: None, InPlace, Add, Restart, Remove or Replace.
	Result planner.Class `json:"result"`
	// Machines by pool and name; new ones have no name.
	Machines []Machine `json:"machines,omitempty"`
	// Order says in which order machines are changed.
	Order []Stage `json:"order,omitempty"`
	// Fields are all fields that differ, with the strongest class that each causes alone.
	Fields []Cause `json:"fields,omitempty"`
	// Operations are those that are asked for and have not ended.
	Operations []Operation `json:"operations,omitempty"`
	// Notes are what else there is to know.
	Notes []string `json:"notes,omitempty"`
	// Warnings are oddities of the edited configuration.
	Warnings []Warning `json:"warnings,omitempty"`
}

// Machine is what becomes of one machine.
type Machine struct {
	Name  string `json:"name,omitempty"`
	Pool  string `json:"pool,omitempty"`
	Roles string `json:"roles,omitempty"`
	// Class is None, InPlace, Restart, Replace, Add or Remove.
	Class planner.Class `json:"class"`
	// Drained: the pods leave the node first.
	Drained bool `json:"drained,omitempty"`
	// Stage is the one of Order in which it is changed, from 1; 0 when it is not.
	Stage int `json:"stage,omitempty"`
	// Causes are the fields of the manifest that cause it. None for a change that comes without the edit too.
	Causes []Cause `json:"causes,omitempty"`
	// Pending is true when all of it would happen without the edit too.
	Pending bool `json:"pending,omitempty"`
	// Held says why the change would not come yet.
	Held string `json:"held,omitempty"`
	// Problem says why the machine could be given no plan.
	Problem string `json:"problem,omitempty"`
}

// Cause is a field of the manifest and what it does when it is the only one that is edited.
type Cause struct {
	Field string        `json:"field"`
	Class planner.Class `json:"class"`
}

// Stage is a group of machines that are changed together. The planner's tiers come one after the other. Cluster API replaces, adds
// and removes the machines of pools beside them, from the beginning.
type Stage struct {
	// Name is a tier of the planner, or "pool" and the name of a machine pool.
	Name string `json:"name"`
	// Pace is how many machines are changed at a time.
	Pace     string   `json:"pace"`
	Machines []string `json:"machines,omitempty"`
}

// Operation is one that is asked for and has not ended.
type Operation struct {
	// Field of the Cluster that asks for it.
	Field string `json:"field"`
	// Running is true when it has begun.
	Running bool `json:"running,omitempty"`
	// Held says why it would not begin yet.
	Held string `json:"held,omitempty"`
	// Problem says why it would fail, and touch no machine.
	Problem string `json:"problem,omitempty"`
	// Stuck says why it cannot go on, which has begun.
	Stuck string `json:"stuck,omitempty"`
}

// Warning is an oddity of the edited configuration.
type Warning struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// Problems are the machines that could be given no plan.
func (r Report) Problems() int {
	n := 0
	for _, m := range r.Machines {
		if m.Problem != "" {
			n++
		}
	}
	return n
}

// OperationProblem says why the operation that a field of the Cluster asks for would fail, or cannot go on; empty when nothing is known against it.
func (r Report) OperationProblem(field string) string {
	for _, o := range r.Operations {
		if o.Field == field {
			return cmp.Or(o.Problem, o.Stuck)
		}
	}
	return ""
}

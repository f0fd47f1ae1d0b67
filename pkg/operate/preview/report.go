package preview

import (
	"cmp"

	"github.com/drover-io/drover/pkg/decide/planner"
)

// Report is the effect of an edit.
type Report struct {
	// Cluster is the cluster's namespace and name, as NAMESPACE/NAME.
	Cluster string `json:"cluster"`
	// New is true if the cluster does not exist yet.
	New bool `json:"new,omitempty"`
	// Result is the strongest class that the edit causes: None, InPlace, Add, Restart, Remove or Replace.
	Result planner.Class `json:"result"`
	// Machines by pool and name. New machines have no name.
	Machines []Machine `json:"machines,omitempty"`
	// Order lists the stages in which machines change.
	Order []Stage `json:"order,omitempty"`
	// Fields are all differing fields, with the strongest class that each causes alone.
	Fields []Cause `json:"fields,omitempty"`
	// Restored are the fields that a requested restore puts back from its snapshot, before machines stop.
	Restored []Restored `json:"restored,omitempty"`
	// Operations are the requested operations that have not ended.
	Operations []Operation `json:"operations,omitempty"`
	// Notes are additional information for the user.
	Notes []string `json:"notes,omitempty"`
	// Warnings are oddities of the edited configuration.
	Warnings []Warning `json:"warnings,omitempty"`
}

// Machine is the effect on one machine.
type Machine struct {
	Name  string `json:"name,omitempty"`
	Pool  string `json:"pool,omitempty"`
	Roles string `json:"roles,omitempty"`
	// Class is None, InPlace, Restart, Replace, Add or Remove.
	Class planner.Class `json:"class"`
	// Drained means that Drover drains the node first.
	Drained bool `json:"drained,omitempty"`
	// Stage is the machine's position in Order, from 1. It is 0 if the machine does not change.
	Stage int `json:"stage,omitempty"`
	// Causes are the manifest's fields that cause the change. A change that is independent of the edit has none.
	Causes []Cause `json:"causes,omitempty"`
	// Pending is true if the whole change is independent of the edit.
	Pending bool `json:"pending,omitempty"`
	// Held says why the change must wait.
	Held string `json:"held,omitempty"`
	// Problem says why no plan can be made for the machine.
	Problem string `json:"problem,omitempty"`
}

// Cause is a field of the manifest and its effect if it is the only edited field.
type Cause struct {
	Field string        `json:"field"`
	Class planner.Class `json:"class"`
}

// Restored is a field that goes back to the value in a snapshot. The values are short texts for users, without secrets.
type Restored struct {
	Field string `json:"field"`
	Old   string `json:"old"`
	New   string `json:"new"`
}

// Stage is a group of machines that change together. The planner's tiers follow one after the other. Cluster API
// replaces, adds and removes the machines of pools in parallel, from the start.
type Stage struct {
	// Name is a tier of the planner, or "pool" and the name of a machine pool.
	Name string `json:"name"`
	// Pace is the number of machines that change at the same time.
	Pace     string   `json:"pace"`
	Machines []string `json:"machines,omitempty"`
}

// Operation is a requested operation that has not ended.
type Operation struct {
	// Field of the Cluster that requests the operation.
	Field string `json:"field"`
	// Running is true if the operation has begun.
	Running bool `json:"running,omitempty"`
	// Held says why the operation would not begin yet.
	Held string `json:"held,omitempty"`
	// Problem says why the operation would fail without changing a machine.
	Problem string `json:"problem,omitempty"`
	// Stuck says why a running operation cannot continue.
	Stuck string `json:"stuck,omitempty"`
}

// Warning is an oddity of the edited configuration.
type Warning struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// Problems returns the number of machines without a possible plan.
func (r Report) Problems() int {
	n := 0
	for _, m := range r.Machines {
		if m.Problem != "" {
			n++
		}
	}
	return n
}

// OperationProblem says why the operation that a field requests would fail or cannot continue. It is empty if no
// problem is known.
func (r Report) OperationProblem(field string) string {
	for _, o := range r.Operations {
		if o.Field == field {
			return cmp.Or(o.Problem, o.Stuck)
		}
	}
	return ""
}

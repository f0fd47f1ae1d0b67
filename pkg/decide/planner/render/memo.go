package render

import (
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
)

// Memo remembers the plans of a cluster's machines for as long as nothing changes that they are rendered from. It changes no outcome: a
// plan that it gives is the one that would be rendered. What it gives is shared and must not be changed. One goroutine uses it at a time.
type Memo struct {
	versions []string
	common   Input
	known    map[types.UID]remembered
	rendered int
}

// remembered is a plan with the part of its input that is the machine's own.
type remembered struct {
	own      own
	plan     plan.NodePlan
	warnings []Warning
	err      error
}

// own is the part of an input that differs between machines, or within one pass over them.
type own struct {
	version, joinURL      string
	initNode, initialized bool
	machine               Machine
}

// split takes an input apart.
func split(in Input) (Input, own) {
	mine := own{in.Version, in.JoinURL, in.InitNode, in.ControlPlane.Initialized, in.Machine}
	in.Version, in.JoinURL, in.InitNode, in.ControlPlane.Initialized, in.Machine = "", "", false, false, Machine{}
	return in, mine
}

// Begin is called before a pass over the machines. It forgets all plans when something has changed that they have in common, and those of
// machines that are gone.
func (m *Memo) Begin(v Versions, in Input, machines func(types.UID) bool) {
	common, _ := split(in)
	if !slices.Equal(m.versions, v.Names()) || !reflect.DeepEqual(m.common, common) {
		m.versions, m.common, m.known = v.Names(), common, nil
	}
	if m.known == nil {
		m.known = map[types.UID]remembered{}
	}
	for uid := range m.known {
		if !machines(uid) {
			delete(m.known, uid)
		}
	}
}

// Plan is Plan of the versions that Begin was called with, and of an input with the same common part.
func (m *Memo) Plan(v Versions, in Input) (plan.NodePlan, []Warning, error) {
	_, mine := split(in)
	if last, ok := m.known[in.Machine.UID]; ok && reflect.DeepEqual(last.own, mine) {
		return last.plan, last.warnings, last.err
	}
	m.rendered++
	out := remembered{own: mine}
	out.plan, out.warnings, out.err = v.Plan(in)
	m.known[in.Machine.UID] = out
	return out.plan, out.warnings, out.err
}

// Rendered is how many plans were rendered so far.
func (m *Memo) Rendered() int { return m.rendered }

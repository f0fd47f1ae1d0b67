package render

import (
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
)

// Memo caches the plans of a cluster's machines while their input does not change. It changes no result: a cached plan
// equals a newly rendered one. Results are shared and must not be modified. It is not safe for concurrent use.
type Memo struct {
	versions []string
	common   Input
	known    map[types.UID]remembered
	rendered int
}

// remembered is a plan with the machine's own part of its input.
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

// split separates an input into its common part and the machine's own part.
func split(in Input) (Input, own) {
	mine := own{in.Version, in.JoinURL, in.InitNode, in.ControlPlane.Initialized, in.Machine}
	in.Version, in.JoinURL, in.InitNode, in.ControlPlane.Initialized, in.Machine = "", "", false, false, Machine{}
	return in, mine
}

// Begin starts a pass over the machines. It drops all plans when their common input has changed, and the plans of
// deleted machines.
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

// Plan is the cached result of Versions.Plan. The caller passes the versions of Begin, and an input with the same
// common part.
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

// Rendered is the number of rendered plans so far.
func (m *Memo) Rendered() int { return m.rendered }

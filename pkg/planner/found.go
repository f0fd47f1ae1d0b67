package planner

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/drover-io/drover/pkg/planner/render"
)

// AsFound is the render version of a machine whose plan another manager made. It renders nothing: the plan stays as it was found, byte for
// byte, until somebody wishes for a change, and is then rendered with the newest version.
const AsFound = "as-found"

// Takeover is with which notes the machines of another manager are taken over.
type Takeover struct {
	// Marks by the name of the machine, of those that get some.
	Marks map[string]Marks
	// Problems stand in the way. A person has to end them.
	Problems []string
}

// TakeOver says with which notes the machines of a cluster become ours. Machines that a Drover has planned keep their own. For all others what
// their manager noted on plan secrets is taken once, here, and noted where no node can write; TakeOver does not believe a second init node.
// The evidence of what was there is taken with it, so that later wishes are told from what was found.
func TakeOver(s Snapshot) Takeover {
	s.Machines = slices.Clone(s.Machines)
	out, taken := Takeover{Marks: map[string]Marks{}}, []*Machine{}
	inits := []note{}
	for i := range s.Machines {
		m := &s.Machines[i]
		switch {
		case m.Plan == nil || m.Deleting && m.gone():
			continue
		case m.Marks.RenderVersion == "" && m.Plan.State.PlanExists:
			m.Marks.InitNode = m.Marks.InitNode || m.Plan.InitNode
			m.Marks.JoinURL = cmp.Or(m.Marks.JoinURL, m.Plan.JoinURL)
			m.Marks.JoinedTo = cmp.Or(m.Marks.JoinedTo, m.Plan.JoinedTo, render.JoinedServer(m.Plan.State.Plan))
			m.Marks.RenderVersion = AsFound
			taken = append(taken, m)
		}
		if m.Marks.InitNode && !m.Deleting {
			inits = append(inits, note{name: m.Name})
		}
		if m.Plan.Malformed != "" {
			out.Problems = append(out.Problems, fmt.Sprintf("the plan secret %s of machine %s is unreadable: %s", m.Plan.Name, m.Name, m.Plan.Malformed))
		}
	}
	if len(inits) > 1 {
		out.Problems = append(out.Problems, about("several machines say that they are the init node, of which one may lie; take the label off the plan secrets of "+
			"all but the one that has started the cluster:", inits))
	}
	p := newPass(&s)
	if v := stepElect(p); v.stop {
		out.Problems = append(out.Problems, v.wait.Message)
	} else {
		stepJoin(p)
	}
	for _, m := range taken {
		i := slices.IndexFunc(p.machines, func(o *machine) bool { return o.Machine == m })
		if i < 0 {
			continue
		}
		wrapped := p.machines[i]
		wrapped.joins = wrapped.marks.JoinedTo
		wrapped.marks.Found = p.evidenceOf(wrapped).about(m.Plan.State.Checksum)
		out.Marks[m.Name] = wrapped.marks
	}
	return out
}

// knows reports that what becomes of a machine's plan can be said: its version can be rendered, or the plan is still the one that was found.
func (p *pass) knows(m *machine) bool {
	version := p.versionFor(m)
	if version != AsFound {
		return p.s.Versions.Knows(version)
	}
	_, ok := m.evidence()
	return ok
}

// leave leaves a machine with the plan that it was found with, as long as nobody has wished for a change since. It reports whether it does.
func (p *pass) leave(m *machine) bool {
	had, ok := m.evidence()
	if !ok || p.versionFor(m) != AsFound {
		return false
	}
	if len(p.wishes(m, had)) > 0 {
		m.wished = true
		return false
	}
	m.kept, m.joins, m.desired = true, m.marks.JoinedTo, render.WithoutEtcdProof(m.Plan.State.Plan)
	return true
}

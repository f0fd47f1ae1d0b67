package planner

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// AsFound is the render version of a machine whose plan another manager made. It renders nothing: the plan stays as it
// was found, byte for byte, until a change is requested. Then the newest version renders it.
const AsFound = "as-found"

// Takeover holds the notes for machines that Drover takes over from another manager.
type Takeover struct {
	// Marks by the name of the machine, for machines that get new ones.
	Marks map[string]Marks
	// Problems prevent the takeover. The user has to solve them.
	Problems []string
}

// TakeOver returns the notes with which Drover takes over the machines of a cluster. Machines with a plan of a Drover
// keep their notes. For all others, TakeOver takes the notes of their manager from the plan Secrets once. It stores
// them where no node can write, and accepts only one init node. The evidence of the found state is stored too, so that
// later changes are compared with it.
func TakeOver(s Snapshot) Takeover {
	s.Machines = slices.Clone(s.Machines)
	out, taken := Takeover{Marks: map[string]Marks{}}, map[*Machine]Marks{}
	out.takeMarks(s.Machines, taken)
	if fields := unfinished(s.ControlPlane); len(taken) > 0 && len(fields) > 0 {
		out.Problems = append(out.Problems, "its manager has not rolled out an edit to all machines "+
			"(status.appliedSpec of the RKEControlPlane differs from spec in "+strings.Join(fields, ", ")+
			"): after the takeover, the other machines would never get the edit; "+
			"let the manager finish, or revert the edit")
	}
	p := newPass(&s)
	if v := stepElect(p); !v.stop {
		stepJoin(p)
	} else if len(p.started()) > 0 {
		out.Problems = append(out.Problems, v.wait.Message)
	}
	p.noteFound(taken, out.Marks)
	return out
}

// takeMarks sets the marks of machines without a plan of a Drover from the notes of their manager. taken holds the
// marks that they had before.
func (t *Takeover) takeMarks(machines []Machine, taken map[*Machine]Marks) {
	t.refuseWindows(machines)
	var inits []note
	for i := range machines {
		m := &machines[i]
		if m.Plan == nil || m.isUnsupported() {
			continue
		}
		if m.Plan.State.PlanExists && !plannedByDrover(m) {
			taken[m] = m.Marks
			m.Marks = marksOfTheirs(m)
		}
		if m.Marks.InitNode && !m.Deleting {
			inits = append(inits, note{name: m.Name})
		}
		if m.Plan.Malformed != "" {
			t.Problems = append(t.Problems, fmt.Sprintf("the plan secret %s of machine %s is unreadable: %s",
				m.Plan.Name, m.Name, m.Plan.Malformed))
		}
	}
	if len(inits) > 1 {
		t.Problems = append(t.Problems, about("several machines have the label of the init node; "+
			"remove the label from all plan secrets except that of the machine that started the cluster:", inits))
	}
}

// refuseWindows reports the machines that Drover cannot manage.
func (t *Takeover) refuseWindows(machines []Machine) {
	var found []note
	for i := range machines {
		if m := &machines[i]; m.runsWindows() && !m.gone() {
			found = append(found, note{name: m.Name})
		}
	}
	if len(found) > 0 {
		t.Problems = append(t.Problems, about("Drover does not support Windows; delete these machines with the "+
			"manager that they have, or leave the cluster with it:", found))
	}
}

// unfinished are the fields of the spec that plans depend on, and that not all machines have as requested. It is empty
// when that is not known.
func unfinished(cp ControlPlane) []string {
	if cp.Status.AppliedSpec == nil {
		return nil
	}
	applied, asked := specDigests(cp.Status.AppliedSpec), specDigests(&cp.Spec)
	var out []string
	for field := range fieldCauses {
		if applied[field] != asked[field] {
			out = append(out, field)
		}
	}
	slices.Sort(out)
	return out
}

// noteFound gives machines that are taken over the evidence of the found state, and lists the changed notes.
func (p *pass) noteFound(taken map[*Machine]Marks, changed map[string]Marks) {
	for _, m := range p.machines {
		had, found := taken[m.Machine]
		if !found {
			continue
		}
		m.joins = m.marks.JoinedTo
		m.marks.Found = p.causes.evidenceOf(m).about(m.Plan.State.Checksum)
		if p.s.Agents.Redeploy != 0 { // its manager has carried it out
			m.marks.AgentPin = render.AgentPin{Redeploy: p.s.Agents.Redeploy}.String()
		}
		if m.marks != had {
			changed[m.Name] = m.marks
		}
	}
}

// marksOfTheirs are the notes of a manager that keeps them on plan Secrets.
func marksOfTheirs(m *Machine) Marks {
	return Marks{
		InitNode: m.Marks.InitNode || m.Plan.InitNode, JoinURL: cmp.Or(m.Plan.JoinURL, m.Marks.JoinURL),
		JoinedTo:      cmp.Or(m.Plan.JoinedTo, render.JoinedServer(m.Plan.State.Plan)),
		RenderVersion: AsFound, Version: m.Marks.Version,
	}
}

// plannedByDrover reports that a Drover made the machine's current plan: its evidence is about exactly that plan.
func plannedByDrover(m *Machine) bool {
	var e evidence
	pinned := m.Marks.RenderVersion != "" && m.Marks.RenderVersion != AsFound
	return pinned && json.Unmarshal([]byte(m.Plan.Evidence), &e) == nil && e.Plan == m.Plan.State.Checksum
}

// With returns the snapshot as it is once the notes are stored.
func (t Takeover) With(s Snapshot) Snapshot {
	s.Machines = slices.Clone(s.Machines)
	for i := range s.Machines {
		if marks, taken := t.Marks[s.Machines[i].Name]; taken {
			s.Machines[i].Marks = marks
		}
	}
	return s
}

// isPlanKnown reports that the desired plan of a machine is known: its version can be rendered, or the plan is still
// the found one.
func (c *cluster) isPlanKnown(m *machine) bool {
	version := c.versionFor(m)
	if version != AsFound {
		return c.s.Versions.Knows(version)
	}
	_, ok := m.evidence()
	return ok
}

// keepFound keeps the found plan of a machine while no change has been requested since. It reports whether it does.
func (r *rollOut) keepFound(m *machine) bool {
	if r.versionFor(m) != AsFound {
		return false
	}
	had, ok := m.evidence()
	if !ok {
		return false
	}
	if len(r.causes.changesSince(m, had)) > 0 {
		m.isChangeRequested = true
		return false
	}
	m.keepsPlan, m.joins, m.desired = true, m.marks.JoinedTo, render.WithoutEtcdProof(m.Plan.State.Plan)
	return true
}

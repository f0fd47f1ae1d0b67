package planner

import (
	"slices"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/disruption"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// causeOf is why the plan that a machine should have disrupts it: what somebody wished and what has changed since the plan that it has. It is
// empty for another try of a plan that disrupted nothing, such as the first one.
func (p *pass) causeOf(m *machine) disruption.Cause {
	if p.restoring || m.down() {
		return disruption.CommandRestore
	}
	had, ok := m.evidence()
	if !ok {
		return p.causeWithoutEvidence(m)
	}
	found := p.wishes(m, had)
	switch {
	case len(found) == 0 && m.again():
		return had.Cause // the same once more: it did not come to its end
	case len(found) == 0 && had.Cause != "" && render.OperationOf(m.Plan.State.Plan) != "":
		return had.Cause // an operation came in between, and built on what was applied before
	}
	return strongest(found)
}

// wishes are the causes of all that has changed since the plan that a machine has.
func (p *pass) wishes(m *machine, had evidence) map[disruption.Cause]bool {
	now, found := p.evidenceOf(m), map[disruption.Cause]bool{}
	for field := range p.edited(had, now) {
		found[fieldCauses[field]] = true
	}
	for part, cause := range partCauses {
		if had.Other[part] != now.Other[part] {
			found[cause] = true
		}
	}
	if dataChanged(had, now) {
		found[disruption.EditObject] = true
	}
	if had.Other[partJoin] != now.Other[partJoin] {
		found[p.causeOfJoin(m, had)] = true
	}
	if now.Other[partRender] == p.asked(m) && p.rolled(m, had.Other[partRender]) {
		found[disruption.CommandRoll] = true
	}
	return found
}

// onlyReleaseData reports that a plan would change because more is known about its release, as after an upgrade of Drover, and because of nothing
// that somebody wished: the node is not restarted for it, also after an operation, and gets what is known now with its next change. Evidence that the
// node has forged keeps from it what it could leave undone anyway.
func (p *pass) onlyReleaseData(m *machine) bool {
	had, ok := m.evidence()
	if !ok || p.restoring || m.down() || m.again() {
		return false
	}
	return had.Other[partRelease] != p.evidenceOf(m).Other[partRelease] && len(p.wishes(m, had)) == 0
}

// edited are the fields of the spec that were edited since a machine's plan was known to be right: since it was delivered, or since all
// nodes had another spec than at that time, which means that the plan has outlived an edit that did not concern it.
func (p *pass) edited(had, now evidence) map[string]bool {
	settled := map[string]string{}
	if applied := p.s.ControlPlane.Status.AppliedSpec; applied != nil && had.Applied != now.Applied {
		settled = specDigests(applied)
	}
	out := map[string]bool{}
	for field := range fieldCauses {
		before, after := had.Spec[field], now.Spec[field]
		if before != after && (settled[field] == "" || settled[field] != after) {
			out[field] = true
		}
	}
	return out
}

// causeWithoutEvidence is for plans of which nothing is known: they were delivered by another program, or by a Drover that kept no
// evidence. An edit that is not on all nodes yet is believed to be the reason; commands and whom the plan joins can be read off what is
// there. The rest is nobody's wish: to believe in an edit that nobody can see would hide a restart that an upgrade of Drover causes.
func (p *pass) causeWithoutEvidence(m *machine) disruption.Cause {
	found := map[disruption.Cause]bool{}
	if applied := p.s.ControlPlane.Status.AppliedSpec; applied != nil {
		was, now := specDigests(applied), specDigests(&p.s.ControlPlane.Spec)
		for field, cause := range fieldCauses {
			found[cause] = found[cause] || was[field] != now[field]
		}
	}
	if joined := p.joinedBefore(m); joined != m.joins && (joined != "" || m.roles.Server()) {
		found[p.causeOfJoin(m, evidence{Other: map[string]string{partJoin: digest(joined)}})] = true
	}
	if asked := p.asked(m); asked != "" && p.rolled(m, p.renderedBy(m)) {
		found[disruption.CommandRoll] = true
	}
	cause := strongest(found)
	if cause == disruption.Unknown && m.again() && m.change == nodeplan.ChangeNone {
		return "" // the same once more: what it was delivered for was counted then
	}
	return cause
}

// renderedBy is the version that a plan without evidence was rendered with. The mark tells it, unless it moved and the delivery failed.
func (p *pass) renderedBy(m *machine) string {
	now := p.versionFor(m)
	if m.Marks.RenderVersion != now {
		return m.Marks.RenderVersion
	}
	had := render.WithoutEtcdProof(m.Plan.State.Plan)
	for _, version := range p.s.Versions.Names() {
		if version == now {
			continue
		}
		if other, ok := p.renderedWith(m, version); ok && nodeplan.Compare(had, other) == nodeplan.ChangeNone {
			return version
		}
	}
	return now
}

// rolled reports that a machine's plan differs from what it would be with the version that it was rendered with. A command moves the mark
// of machines whose plans it does not change, and what changes them later has another cause.
func (p *pass) rolled(m *machine, from string) bool {
	if from == p.versionFor(m) {
		return false
	}
	before, ok := p.renderedWith(m, from)
	return !ok || nodeplan.Compare(before, m.desired) != nodeplan.ChangeNone
}

// renderedWith is the plan that a machine would have now with a version, or false when that cannot be told.
func (p *pass) renderedWith(m *machine, version string) (plan.NodePlan, bool) {
	if !p.s.Versions.Knows(version) {
		return plan.NodePlan{}, false
	}
	in := p.inputFor(m, m.joins)
	in.Version = version
	out, _, err := p.s.Versions.Plan(in) // past the memo, which holds one plan of each machine
	return withdraw(render.NodeOf(in), &m.Plan.State, out), err == nil
}

// strongest chooses one cause; nobody's wish when there is none.
func strongest(found map[disruption.Cause]bool) disruption.Cause {
	for _, cause := range disruption.Causes() {
		if found[cause] {
			return cause
		}
	}
	return disruption.Unknown
}

// serverAt is the machine whose server is joined at a URL, which several may share: the init node, or else the first of them.
func (p *pass) serverAt(joinURL string) *machine {
	if joinURL == "" {
		return nil
	}
	if p.init != nil && p.init.marks.JoinURL == joinURL {
		return p.init
	}
	i := slices.IndexFunc(p.machines, func(o *machine) bool { return o.canBeJoined() && o.marks.JoinURL == joinURL })
	if i < 0 {
		return nil
	}
	return p.machines[i]
}

// addressDigest is that of all that the join URL of a server follows from, beside the spec: others report it, or set it by hand.
func (m *machine) addressDigest() string {
	parts := []any{m.Addresses}
	for _, key := range []string{
		rkev1.JoinURLAutosetDisabledAnnotation, rkev1.JoinURLAnnotation, rkev1.InternalAddressAnnotation, rkev1.AddressAnnotation,
	} {
		parts = append(parts, m.Annotations[key])
	}
	if m.Driver != nil {
		parts = append(parts, m.Driver.PrivateIPAddress, m.Driver.IPAddress)
	}
	if m.roles.OnlyETCD() {
		parts = append(parts, m.etcdAddress())
	}
	return digest(parts)
}

// joinedBefore is the server that a plan without evidence has its machine join. The mark may be that of a plan that was not delivered.
func (p *pass) joinedBefore(m *machine) string {
	if p.s.ControlPlane.Spec.UnmanagedConfig {
		return m.Marks.JoinedTo
	}
	return render.JoinedServer(m.Plan.State.Plan)
}

// causeOfJoin is why a machine has to join at another URL than its plan says: the server is lost, or somebody gave its machine another
// address. A move away from a server that is where it was is nobody's wish.
func (p *pass) causeOfJoin(m *machine, had evidence) disruption.Cause {
	server := p.stillJoined(m, had)
	switch address, known := had.Other[partAddress]; {
	case server == nil:
		return disruption.HealthServerLost
	case known && address != server.addressDigest(), !known && server.Marks.JoinURL != server.marks.JoinURL:
		return disruption.EditMachine
	}
	return disruption.Unknown
}

// stillJoined is the machine whose server a machine's plan has it join, nil when it cannot stay with that. A server follows the init node,
// which changes only when that is lost; a worker stays while the server can be joined. Machines tell whether it is the same one, for a
// server has another URL when its address changes; URLs do where the evidence names no machine.
func (p *pass) stillJoined(m *machine, had evidence) *machine {
	uid, known := had.Other[partServer]
	if !known && had.Other[partJoin] == digest("") {
		return nil // it was the init node
	}
	i := slices.IndexFunc(p.machines, func(o *machine) bool {
		switch {
		case m.roles.Server() && o != p.init, !m.roles.Server() && !o.canBeJoined():
			return false
		case known:
			return digest(o.UID) == uid
		}
		return digest(o.Marks.JoinURL) == had.Other[partJoin] || digest(o.marks.JoinURL) == had.Other[partJoin]
	})
	if i < 0 {
		return nil
	}
	return p.machines[i]
}

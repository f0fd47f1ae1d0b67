package planner

import (
	"slices"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/disruption"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// causeFinder finds out why plans change.
type causeFinder struct {
	*cluster
	plans *renderer
	// evidence is the part that the plans of all machines share, nil until first use.
	evidence *evidence
}

// causeOf is why the desired plan disrupts the machine: what has been requested and what has changed since its current
// plan. It is empty for another try of a plan that disrupted nothing, such as the first plan.
func (c *causeFinder) causeOf(m *machine) disruption.Cause {
	if c.restoring || m.down() {
		return disruption.CommandRestore
	}
	had, ok := m.evidence()
	if !ok {
		return c.causeWithoutEvidence(m)
	}
	found := c.changesSince(m, had)
	switch {
	case len(found) == 0 && m.mayRunAgain():
		return had.Cause // the same plan again, because it was not completed
	case len(found) == 0 && had.Cause != "" && render.OperationOf(m.Plan.State.Plan) != "":
		return had.Cause // an operation came in between, on top of the applied plan
	}
	return strongest(found)
}

// changesSince are the causes of all changes since the machine's current plan.
func (c *causeFinder) changesSince(m *machine, had evidence) map[disruption.Cause]bool {
	now, found := c.evidenceOf(m), map[disruption.Cause]bool{}
	for field := range c.edited(had, now) {
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
		found[c.causeOfJoin(m, had)] = true
	}
	if now.Other[partRender] == c.commandedVersion(m) && c.isMovedFrom(m, had.Other[partRender]) {
		found[disruption.CommandRoll] = true
	}
	return found
}

// isOnlyReleaseData reports that a plan would change only because more is known about its release, as after an upgrade
// of Drover. No edit or command is involved. The node does not restart for that, not even after an operation, and gets
// the new data with its next change. A node that forges its evidence only misses what it could refuse to do anyway.
func (c *causeFinder) isOnlyReleaseData(m *machine) bool {
	had, ok := m.evidence()
	if !ok || c.restoring || m.down() || m.mayRunAgain() {
		return false
	}
	return had.Other[partRelease] != c.evidenceOf(m).Other[partRelease] && len(c.changesSince(m, had)) == 0
}

// edited are the fields of the spec that were edited since a machine's plan was known to be right. That is its
// delivery, or a later time at which all nodes had another spec. In that case the plan was not affected by the edits
// before.
func (c *causeFinder) edited(had, now evidence) map[string]bool {
	settled := map[string]string{}
	if applied := c.s.ControlPlane.Status.AppliedSpec; applied != nil && had.Applied != now.Applied {
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

// causeWithoutEvidence is for plans without evidence: another program delivered them, or a Drover version that kept no
// evidence. An edit that is not on all nodes yet counts as the cause. Commands and the joined server can be read from
// the objects. Everything else is unknown. Assuming an edit that cannot be seen would hide a restart that an upgrade of
// Drover causes.
func (c *causeFinder) causeWithoutEvidence(m *machine) disruption.Cause {
	found := map[disruption.Cause]bool{}
	if applied := c.s.ControlPlane.Status.AppliedSpec; applied != nil {
		was, now := specDigests(applied), specDigests(&c.s.ControlPlane.Spec)
		for field, cause := range fieldCauses {
			found[cause] = found[cause] || was[field] != now[field]
		}
	}
	if joined := c.joinedBefore(m); joined != m.joins && (joined != "" || m.roles.Server()) {
		found[c.causeOfJoin(m, evidence{Other: map[string]string{partJoin: digest(joined)}})] = true
	}
	if asked := c.commandedVersion(m); asked != "" && c.isMovedFrom(m, c.renderedBy(m)) {
		found[disruption.CommandRoll] = true
	}
	cause := strongest(found)
	if cause == disruption.Unknown && m.mayRunAgain() && m.change == nodeplan.ChangeNone {
		return "" // the same plan again: its cause was counted at its first delivery
	}
	return cause
}

// renderedBy is the version that a plan without evidence was rendered with. The mark holds it, unless the mark moved
// and the delivery failed.
func (c *causeFinder) renderedBy(m *machine) string {
	now := c.versionFor(m)
	if m.Marks.RenderVersion != now {
		return m.Marks.RenderVersion
	}
	had := render.WithoutEtcdProof(m.Plan.State.Plan)
	for _, version := range c.s.Versions.Names() {
		if version == now {
			continue
		}
		if other, ok := c.plans.renderedWith(m, version); ok && nodeplan.Compare(had, other) == nodeplan.ChangeNone {
			return version
		}
	}
	return now
}

// isMovedFrom reports that a machine's plan differs from the plan in the version that it was rendered with. A command
// also moves the marks of machines whose plans it does not change. Later changes of those have another cause.
func (c *causeFinder) isMovedFrom(m *machine, from string) bool {
	if from == c.versionFor(m) {
		return false
	}
	before, ok := c.plans.renderedWith(m, from)
	return !ok || nodeplan.Compare(before, m.desired) != nodeplan.ChangeNone
}

// renderedWith is the plan that a machine would have now with a version, or false when that cannot be rendered.
func (r *renderer) renderedWith(m *machine, version string) (plan.NodePlan, bool) {
	if !r.s.Versions.Knows(version) {
		return plan.NodePlan{}, false
	}
	in := r.inputFor(m, m.joins)
	in.Version = version
	out, _, err := r.s.Versions.Plan(in) // not from the memo, which holds one plan of each machine
	return withdraw(render.NodeOf(in), &m.Plan.State, out), err == nil
}

// strongest chooses one cause, Unknown when there is none.
func strongest(found map[disruption.Cause]bool) disruption.Cause {
	for _, cause := range disruption.Causes() {
		if found[cause] {
			return cause
		}
	}
	return disruption.Unknown
}

// serverAt is the machine whose server is joined at a URL. Several machines may share the URL. Then it is the init
// node, or else the first of them.
func (c *cluster) serverAt(joinURL string) *machine {
	if joinURL == "" {
		return nil
	}
	if c.init != nil && c.init.marks.JoinURL == joinURL {
		return c.init
	}
	i := slices.IndexFunc(c.machines, func(o *machine) bool { return o.canBeJoined() && o.marks.JoinURL == joinURL })
	if i < 0 {
		return nil
	}
	return c.machines[i]
}

// addressDigest is the digest of everything, except the spec, that determines the join URL of a server. Cluster API,
// drivers and nodes report it, or an operator sets it by hand.
func (m *machine) addressDigest() string {
	parts := []any{m.Addresses}
	for _, key := range []string{
		rkev1.JoinURLAutosetDisabledAnnotation, rkev1.JoinURLAnnotation, rkev1.InternalAddressAnnotation,
		rkev1.AddressAnnotation,
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

// joinedBefore is the server that a machine joins by a plan without evidence. The mark may belong to a plan that was
// not delivered.
func (c *causeFinder) joinedBefore(m *machine) string {
	if c.s.ControlPlane.Spec.UnmanagedConfig {
		return m.Marks.JoinedTo
	}
	return render.JoinedServer(m.Plan.State.Plan)
}

// causeOfJoin is why a machine has to join at another URL than its plan says: the server is lost, or its machine has
// another address. When the server is still there, the cause is unknown.
func (c *causeFinder) causeOfJoin(m *machine, had evidence) disruption.Cause {
	server := c.stillJoined(m, had)
	switch address, known := had.Other[partAddress]; {
	case server == nil:
		return disruption.HealthServerLost
	case known && address != server.addressDigest(), !known && server.Marks.JoinURL != server.marks.JoinURL:
		return disruption.EditMachine
	}
	return disruption.Unknown
}

// stillJoined is the machine whose server a machine joins by its plan, nil when it cannot stay with that server. A
// server follows the init node, which changes only when it is lost. A worker stays while its server can be joined. The
// machine's UID identifies the server, because its URL changes with its address. Without a UID in the evidence, the URL
// identifies it.
func (c *causeFinder) stillJoined(m *machine, had evidence) *machine {
	uid, known := had.Other[partServer]
	if !known && had.Other[partJoin] == digest("") {
		return nil // it was the init node
	}
	i := slices.IndexFunc(c.machines, func(o *machine) bool {
		switch {
		case m.roles.Server() && o != c.init, !m.roles.Server() && !o.canBeJoined():
			return false
		case known:
			return digest(o.UID) == uid
		}
		return digest(o.Marks.JoinURL) == had.Other[partJoin] || digest(o.marks.JoinURL) == had.Other[partJoin]
	})
	if i < 0 {
		return nil
	}
	return c.machines[i]
}

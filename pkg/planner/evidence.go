package planner

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/disruption"
	"github.com/drover-io/drover/pkg/nodeplan"
	"github.com/drover-io/drover/pkg/planner/render"
)

// evidence tells what a plan was rendered from, so that a later change of the plan can be traced to what has changed since. It lies
// beside the plan, in the same secret and write, and holds digests only. A node can write there: only what concerns nobody else builds on it.
type evidence struct {
	// Plan is the checksum of the plan that this is about.
	Plan string `json:"plan"`
	// Applied is the digest of the spec that all nodes had at that time.
	Applied string `json:"applied,omitempty"`
	// Spec are the digests of the fields of the spec that plans depend on.
	Spec map[string]string `json:"spec,omitempty"`
	// Other are the digests of everything else.
	Other map[string]string `json:"other,omitempty"`
	// Cause is why the plan disrupts the machine, empty when it does not.
	Cause disruption.Cause `json:"cause,omitempty"`
}

// Parts of the evidence beside the spec. They are stored.
const (
	partAddress     = "address"     // what the address of the server that is joined follows from
	partAgent       = "agent"       // the manifest of the agent in the cluster
	partAnnotations = "annotations" // of the control plane
	partJoin        = "join"        // the server that is joined, empty for the init node
	partMachine     = "machine"     // labels, annotations and roles
	partDriver      = "driver"      // what the driver recorded
	partData        = "data"        // what is in the Secrets and ConfigMaps that the configuration refers to
	partObjects     = "objects"     // the same with their annotations, which is what the first release compares
	partRelease     = "release"     // what is known about the Kubernetes version
	partRender      = "render"      // the render version
	partRestores    = "restores"    // how many there were
	partServer      = "server"      // the machine whose server is joined, as far as one is
	partSettings    = "settings"    // of the server
)

// fieldCauses are the fields of the spec that plans depend on.
var fieldCauses = map[string]disruption.Cause{
	"kubernetesVersion":        disruption.EditVersion,
	"provisionGeneration":      disruption.EditReinstall,
	"machineGlobalConfig":      disruption.EditConfiguration,
	"machineSelectorConfig":    disruption.EditConfiguration,
	"machineSelectorFiles":     disruption.EditConfiguration,
	"additionalManifest":       disruption.EditConfiguration,
	"chartValues":              disruption.EditConfiguration,
	"agentEnvVars":             disruption.EditConfiguration,
	"dataDirectories":          disruption.EditConfiguration,
	"unmanagedConfig":          disruption.EditConfiguration,
	"etcd":                     disruption.EditEtcd,
	"registries":               disruption.EditRegistries,
	"networking":               disruption.EditNetworking,
	"localClusterAuthEndpoint": disruption.EditNetworking,
}

// partCauses are the other parts whose change somebody wished for. A change of the others is nobody's wish.
var partCauses = map[string]disruption.Cause{
	partAnnotations: disruption.EditConfiguration,
	partMachine:     disruption.EditMachine,
	partRestores:    disruption.CommandRestore,
	partSettings:    disruption.EditSettings,
}

// digest identifies a value. It is short: that something has changed is all it shall tell, and it lies where plans lie.
func digest(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		return "" // these are plain values
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:4])
}

// specDigests are those of the fields that are set.
func specDigests(spec *rkev1.RKEControlPlaneSpec) map[string]string {
	data, err := json.Marshal(spec)
	fields := map[string]json.RawMessage{}
	if err == nil {
		err = json.Unmarshal(data, &fields)
	}
	if err != nil {
		return nil
	}
	out := map[string]string{}
	for field := range fieldCauses {
		if raw, set := fields[field]; set {
			out[field] = digest(raw)
		}
	}
	return out
}

// evidenceOf is what the plan that a machine should have is rendered from. What all machines have in common is digested once in a pass.
func (p *pass) evidenceOf(m *machine) evidence {
	if p.evidence == nil {
		p.evidence = p.commonEvidence()
	}
	out := *p.evidence
	out.Other = maps.Clone(out.Other)
	out.Other[partRender] = p.versionFor(m)
	out.Other[partJoin] = digest(m.joins)
	if server := p.serverAt(m.joins); server != nil {
		out.Other[partServer], out.Other[partAddress] = digest(server.UID), server.addressDigest()
	}
	out.Other[partDriver] = digest([]any{m.Driver, m.Provisioned})
	labels := maps.Clone(m.Labels)
	delete(labels, rkev1.InitNodeLabel)
	out.Other[partMachine] = digest([]any{labels, m.Annotations})
	return out
}

func (p *pass) commonEvidence() *evidence {
	cp := &p.s.ControlPlane
	out := &evidence{Spec: specDigests(&cp.Spec), Other: map[string]string{
		partAgent:       digest(p.s.ClusterAgent),
		partAnnotations: digest(cp.Annotations[provv1.RKE2PrimeEnabledAnnotation]),
		// With the token of servers, which workers do not know: a node must not be able to try what it guesses of a Secret that it may not read.
		partData:     p.dataDigest(),
		partObjects:  digest([]any{p.s.Tokens.Values.Server, p.s.Objects}),
		partRelease:  digest(p.s.Release),
		partRestores: strconv.FormatInt(cp.Status.ConfigGeneration, 10),
		partSettings: digest(p.s.Settings),
	}}
	if cp.Status.AppliedSpec != nil {
		out.Applied = digest(specDigests(cp.Status.AppliedSpec))
	}
	return out
}

// withheld stands for the digest of data that the cluster may not use at that time, or not all of them.
const withheld = "withheld"

// dataDigest is that of what plans can hold of the objects that the configuration refers to. Who may use an object is not part of it: to allow it,
// or to take the right back, restarts nobody.
func (p *pass) dataDigest() string {
	objects := slices.Clone(p.s.Objects)
	for i := range objects {
		if objects[i].Denied != "" {
			return withheld
		}
		objects[i].Annotations = nil
	}
	return digest([]any{p.s.Tokens.Values.Server, objects})
}

// dataChanged reports that an object that the configuration refers to was edited, as far as that can be told.
func dataChanged(had, now evidence) bool {
	before, noted := had.Other[partData]
	switch after := now.Other[partData]; {
	case before == withheld, after == withheld:
		return false
	case noted:
		return before != after
	}
	return had.Other[partObjects] != now.Other[partObjects] // the first release noted this only
}

// because adds why the plan that the evidence is about disrupts its machine.
func (e evidence) because(cause disruption.Cause) evidence {
	e.Cause = cause
	return e
}

// about says which plan the evidence is about, and encodes it.
func (e evidence) about(checksum string) string {
	e.Plan = checksum
	data, err := json.Marshal(e)
	if err != nil {
		return "" // texts only
	}
	return string(data)
}

// CauseOf is why the plan with that checksum disrupts its machine, by what was written down beside it. It is empty when the plan disrupts
// nothing, when the text is about another plan, and when the cause is none of those that there are: a node can write there.
func CauseOf(text, checksum string) disruption.Cause {
	var e evidence
	if json.Unmarshal([]byte(text), &e) != nil || e.Plan != checksum || !slices.Contains(disruption.Causes(), e.Cause) {
		return ""
	}
	return e.Cause
}

// evidence is that of the plan a machine has, or false when there is none for exactly this plan. That of a plan which was found is on the Machine.
func (m *Machine) evidence() (evidence, bool) {
	if m.Plan == nil {
		return evidence{}, false
	}
	for _, text := range []string{m.Plan.Evidence, m.Marks.Found} {
		var e evidence
		if json.Unmarshal([]byte(text), &e) == nil && e.Plan == m.Plan.State.Checksum {
			return e, true
		}
	}
	return evidence{}, false
}

// readEvidence is the evidence of a machine's plan, or that there is none.
type readEvidence struct {
	evidence
	found bool
}

// evidence is that of the Machine, whose texts do not change within a pass. It is shared and must not be changed.
func (m *machine) evidence() (evidence, bool) {
	if m.read == nil {
		e, ok := m.Machine.evidence()
		m.read = &readEvidence{e, ok}
	}
	return m.read.evidence, m.read.found
}

// Unexplained reports that a machine has a plan of which nothing says what it was made from: another manager made it and no notes were taken of
// it, or those who read the Machine do not see them yet.
func (m *Machine) Unexplained() bool {
	_, explained := m.evidence()
	return m.Plan != nil && m.Plan.State.PlanExists && !explained
}

// keptEvidence is that of the plan a machine has, for a plan that adds nothing but work to it. The work may disrupt it for a cause of its own.
func (m *machine) keptEvidence(checksum string, cause disruption.Cause) string {
	if e, ok := m.evidence(); ok {
		if cause != "" {
			e.Cause = cause
		}
		return e.about(checksum)
	}
	return ""
}

// causeOf is why the plan that a machine should have disrupts it: what somebody wished and what has changed since the plan that it has. It is
// empty for another try of a plan that disrupted nothing, such as the first one.
func (p *pass) causeOf(m *machine) disruption.Cause {
	if p.restoring || m.stopped() || m.restored() {
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
	if !ok || p.restoring || m.stopped() || m.restored() || m.again() {
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

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
	"github.com/drover-io/drover/pkg/decide/disruption"
)

// evidence says what a plan was rendered from, so that a later change of the plan can be traced to its cause. It is
// written with the plan, in the same Secret, and holds digests only. A node can write there, so only decisions about
// that node use it.
type evidence struct {
	// Plan is the checksum of the plan that the evidence belongs to.
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

// Parts of the evidence other than the spec. They are stored.
const (
	partAddress     = "address"     // what determines the address of the joined server
	partAgent       = "agent"       // the manifest of the agent in the cluster
	partAnnotations = "annotations" // of the control plane
	partJoin        = "join"        // the joined server, empty for the init node
	partMachine     = "machine"     // labels, annotations and roles
	partDriver      = "driver"      // what the driver recorded
	partData        = "data"        // the content of the Secrets and ConfigMaps that the configuration refers to
	partObjects     = "objects"     // the same with their annotations, for evidence of the first release
	partRelease     = "release"     // what is known about the Kubernetes version
	partRender      = "render"      // the render version
	partRestores    = "restores"    // how many restores there were
	partServer      = "server"      // the machine of the joined server, if known
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

// partCauses are the other parts whose change was requested. Changes of the remaining parts have no requester.
var partCauses = map[string]disruption.Cause{
	partAnnotations: disruption.EditConfiguration,
	partMachine:     disruption.EditMachine,
	partRestores:    disruption.CommandRestore,
	partSettings:    disruption.EditSettings,
}

// digest identifies a value. It is short, because it must reveal only that something has changed: it is stored next to
// plans.
func digest(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		return "" // these are plain values
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:4])
}

// specDigests are the digests of the fields that are set.
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

// evidenceOf is the evidence of a machine's desired plan. The part that all machines share is computed once per pass.
func (c *causeFinder) evidenceOf(m *machine) evidence {
	if c.evidence == nil {
		c.evidence = c.commonEvidence()
	}
	out := *c.evidence
	out.Other = maps.Clone(out.Other)
	out.Other[partRender] = c.versionFor(m)
	out.Other[partJoin] = digest(m.joins)
	if server := c.serverAt(m.joins); server != nil {
		out.Other[partServer], out.Other[partAddress] = digest(server.UID), server.addressDigest()
	}
	out.Other[partDriver] = digest([]any{m.Driver, m.Provisioned})
	labels := maps.Clone(m.Labels)
	delete(labels, rkev1.InitNodeLabel)
	out.Other[partMachine] = digest([]any{labels, m.Annotations})
	return out
}

func (c *causeFinder) commonEvidence() *evidence {
	cp := &c.s.ControlPlane
	out := &evidence{Spec: specDigests(&cp.Spec), Other: map[string]string{
		partAgent:       digest(c.s.ClusterAgent),
		partAnnotations: digest(cp.Annotations[provv1.RKE2PrimeEnabledAnnotation]),
		// With the token of servers, which workers do not know. Otherwise a node could test guesses of a Secret that it
		// may not read.
		partData:     c.dataDigest(),
		partObjects:  digest([]any{c.s.Tokens.Values.Server, c.s.Objects}),
		partRelease:  digest(c.s.Release),
		partRestores: strconv.FormatInt(cp.Status.ConfigGeneration, 10),
		partSettings: digest(c.s.Settings),
	}}
	if cp.Status.AppliedSpec != nil {
		out.Applied = digest(specDigests(cp.Status.AppliedSpec))
	}
	return out
}

// withheld replaces the digest of data while the cluster may not use all of them.
const withheld = "withheld"

// dataDigest is the digest of what plans can contain of the objects that the configuration refers to. Permissions are
// not part of it: granting or revoking access to an object restarts nothing.
func (c *causeFinder) dataDigest() string {
	objects := slices.Clone(c.s.Objects)
	for i := range objects {
		if objects[i].Denied != "" {
			return withheld
		}
		objects[i].Annotations = nil
	}
	return digest([]any{c.s.Tokens.Values.Server, objects})
}

// dataChanged reports that an object that the configuration refers to was edited, as far as is known.
func dataChanged(had, now evidence) bool {
	before, noted := had.Other[partData]
	switch after := now.Other[partData]; {
	case before == withheld, after == withheld:
		return false
	case noted:
		return before != after
	}
	return had.Other[partObjects] != now.Other[partObjects] // the first release noted only this
}

// because adds why the plan disrupts its machine.
func (e evidence) because(cause disruption.Cause) evidence {
	e.Cause = cause
	return e
}

// about sets the plan that the evidence belongs to, and encodes it.
func (e evidence) about(checksum string) string {
	e.Plan = checksum
	data, err := json.Marshal(e)
	if err != nil {
		return "" // texts only
	}
	return string(data)
}

// CauseOf is why the plan with that checksum disrupts its machine, according to its evidence. It is empty when the plan
// disrupts nothing, when the evidence is about another plan, and when the cause does not exist: a node can write there.
func CauseOf(text, checksum string) disruption.Cause {
	var e evidence
	if json.Unmarshal([]byte(text), &e) != nil || e.Plan != checksum || !slices.Contains(disruption.Causes(), e.Cause) {
		return ""
	}
	return e.Cause
}

// evidence is the evidence of a machine's current plan, or false when there is none for exactly this plan. The evidence
// of an adopted plan is on the Machine.
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

// readEvidence is the evidence of a machine's plan. found is false when there is none.
type readEvidence struct {
	evidence
	found bool
}

// evidence is the evidence of the Machine, read once per pass. It is shared and must not be changed.
func (m *machine) evidence() (evidence, bool) {
	if m.read == nil {
		e, ok := m.Machine.evidence()
		m.read = &readEvidence{e, ok}
	}
	return m.read.evidence, m.read.found
}

// Unexplained reports that a machine has a plan without evidence. Another manager made the plan and no notes were taken
// of it, or the cache does not show them yet.
func (m *Machine) Unexplained() bool {
	_, explained := m.evidence()
	return m.Plan != nil && m.Plan.State.PlanExists && !explained
}

// keptEvidence is the evidence of the current plan, for a new plan that only adds work to it. The work may disrupt the
// machine for its own cause.
func (m *machine) keptEvidence(checksum string, cause disruption.Cause) string {
	if e, ok := m.evidence(); ok {
		if cause != "" {
			e.Cause = cause
		}
		return e.about(checksum)
	}
	return ""
}

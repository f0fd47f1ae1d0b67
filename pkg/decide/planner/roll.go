package planner

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// Roll is the command to move machines to another render version than their pinned one.
type Roll struct {
	// All is the version for machines whose pool is not in Pools. It is empty when they keep their version.
	All string `json:"all,omitempty"`
	// Pools are versions by machine pool.
	Pools map[string]string `json:"pools,omitempty"`
	// Problem says which part of the command cannot be parsed.
	Problem string `json:"problem,omitempty"`
}

// ParseRoll parses a command: VERSION or POOL=VERSION, or several of them separated by commas.
func ParseRoll(text string) Roll {
	var out Roll
	for entry := range strings.SplitSeq(text, ",") {
		entry = strings.TrimSpace(entry)
		pool, version, ofPool := strings.Cut(entry, "=")
		switch {
		case entry == "":
		case !ofPool:
			out.All = entry
		case pool == "" || version == "":
			out.Problem = fmt.Sprintf("%q is neither VERSION nor POOL=VERSION", entry)
		default:
			if out.Pools == nil {
				out.Pools = map[string]string{}
			}
			out.Pools[pool] = version
		}
	}
	return out
}

// String returns the command in the form that ParseRoll reads.
func (r Roll) String() string {
	var entries []string
	if r.All != "" {
		entries = append(entries, r.All)
	}
	for _, pool := range slices.Sorted(maps.Keys(r.Pools)) {
		entries = append(entries, pool+"="+r.Pools[pool])
	}
	return strings.Join(entries, ",")
}

// With adds another command: the version for the named pools, or for all machines when there are none.
func (r Roll) With(version string, pools ...string) Roll {
	if len(pools) == 0 {
		return Roll{All: version}
	}
	out := Roll{All: r.All, Pools: maps.Clone(r.Pools)}
	if out.Pools == nil {
		out.Pools = map[string]string{}
	}
	for _, pool := range pools {
		out.Pools[pool] = version
	}
	return out
}

// For is the version for machines of a pool, empty when they keep their version.
func (r Roll) For(pool string) string {
	if version, named := r.Pools[pool]; named && pool != "" {
		return version
	}
	return r.All
}

// ConditionRenderVersions on an RKEControlPlane is False while plans stay as they are, because this program cannot
// render their version.
const ConditionRenderVersions = "RenderVersionsKnown"

// ReasonRenderVersionUnknown on that condition: a newer Drover made the plans, or a command asks for an unknown
// version.
const ReasonRenderVersionUnknown = "RenderVersionUnknown"

// commandedVersion is the version that a command moves a machine to. It is empty when there is no command, or its
// version cannot be rendered.
func (c *cluster) commandedVersion(m *machine) string {
	if version := c.s.Roll.For(m.Labels[rkev1.MachinePoolNameLabel]); c.s.Versions.Knows(version) {
		return version
	}
	return ""
}

// versionFor is the render version of a machine's plan: the version of a command, or else the machine's pinned version.
// A machine on which nothing runs drops an unknown version.
func (c *cluster) versionFor(m *machine) string {
	pinned := m.marks.RenderVersion
	idle := m.down() || m.Plan != nil && !m.Plan.State.PlanExists && !m.HasNode
	switch asked := c.commandedVersion(m); {
	case asked != "":
		return asked
	case pinned == "", pinned == AsFound && m.isChangeRequested, idle && !c.s.Versions.Knows(pinned):
		return c.s.Versions.Newest()
	}
	return pinned
}

// keepUnknown keeps the machine's current plan, byte for byte, when this program cannot render its version. Another
// version would be another plan, and would restart the machine. It reports whether it keeps the plan.
func (r *rollOut) keepUnknown(m *machine) bool {
	if r.isPlanKnown(m) {
		return false
	}
	m.keepsPlan, m.joins, m.desired = true, m.marks.JoinedTo, render.WithoutEtcdProof(m.Plan.State.Plan)
	if !m.Plan.State.PlanExists {
		m.found = finding{m.keptMessage(), ReasonVersionUnknown}
	}
	return true
}

// arePlansApplied reports that all nodes once had the plans of the current spec.
func (c *cluster) arePlansApplied() bool {
	applied := c.s.ControlPlane.Status.AppliedSpec
	return applied != nil && maps.Equal(specDigests(applied), specDigests(&c.s.ControlPlane.Spec))
}

// keptMessage is the message for a machine that a change cannot reach.
func (m *machine) keptMessage() string {
	if m.marks.RenderVersion == AsFound {
		return "its plan differs from the plan that it was adopted with, " +
			"and Drover cannot tell what has changed since; Drover keeps the plan unchanged"
	}
	return fmt.Sprintf("its plan has render version %s, which this Drover does not know; "+
		"Drover keeps the plan unchanged", m.marks.RenderVersion)
}

// pinVersion pins a machine to the requested version once its plan is the plan of that version.
func (r *rollOut) pinVersion(m *machine) {
	if asked := r.commandedVersion(m); asked != "" && m.Plan.State.PlanExists {
		m.marks.RenderVersion = asked
	}
}

// setVersions reports unknown render versions. Clusters that never had one get no condition.
func (u *summary) setVersions() {
	known := strings.Join(u.s.Versions.Names(), ", ")
	var problems []string
	var kept []note
	var versions []string
	for _, m := range u.machines {
		if (m.keepsPlan || isLive(m) && m.roles.String() != "") && !u.isPlanKnown(m) {
			kept = append(kept, note{name: m.Name})
			versions = append(versions, m.marks.RenderVersion)
		}
	}
	if len(kept) > 0 {
		slices.Sort(versions)
		problems = append(problems, about("The plans of these machines have render version "+
			strings.Join(slices.Compact(versions), ", ")+
			", which this Drover does not know (it knows "+known+
			"). They stay unchanged until Drover knows that version, or a command moves the machines:", kept))
	}
	for _, version := range slices.Sorted(maps.Values(u.s.Roll.Pools)) {
		problems = append(problems, u.unknownRoll(version)...)
	}
	problems = append(problems, u.unknownRoll(u.s.Roll.All)...)
	if u.s.Roll.Problem != "" {
		problems = append(problems,
			"The command to move machines to another render version is not understood: "+u.s.Roll.Problem)
	}
	switch problems = slices.Compact(problems); {
	case len(problems) > 0:
		u.set(ConditionRenderVersions, rkev1.ConditionFalse, ReasonRenderVersionUnknown, strings.Join(problems, "; "))
	case u.has(ConditionRenderVersions):
		u.set(ConditionRenderVersions, rkev1.ConditionTrue, "", "")
	}
}

func (u *summary) unknownRoll(version string) []string {
	if version == "" || u.s.Versions.Knows(version) {
		return nil
	}
	return []string{"Machines are to move to render version " + version + ", which this Drover does not know"}
}

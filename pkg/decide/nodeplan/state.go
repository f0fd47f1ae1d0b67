package nodeplan

import (
	"bytes"
	"errors"
	"maps"
	"slices"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
)

// State is a plan Secret as the server understands it (docs/wire/plan.md#outcome). It is a value that can be compared
// and marshaled.
type State struct {
	// PlanExists is true when a plan was ever delivered. Without one, all other fields are meaningless.
	PlanExists bool
	// Plan is the delivered plan.
	Plan plan.NodePlan
	// PlanBytes are the exact bytes of the delivered plan. The checksum covers them.
	PlanBytes []byte
	// Checksum is the checksum of PlanBytes, empty without a plan.
	Checksum string

	// AppliedPlan is the plan that was applied last. Nil when none was, or when its copy is malformed.
	AppliedPlan *plan.NodePlan

	// Phase and Revision are the report of an agent in state mode, normally empty and 0.
	Phase    Phase
	Revision int

	// MaxFailures and FailureThreshold are the limits of the delivery, Unset when the keys are absent.
	MaxFailures      int
	FailureThreshold int

	// AppliedChecksum and FailedChecksum are the checksums of the plans that the agent applied last and that failed
	// last.
	AppliedChecksum string
	FailedChecksum  string
	FailureCount    int
	SuccessCount    int
	// LastApplyTime is text in the layout of time.UnixDate.
	LastApplyTime string
	// AgentVersion is the version of Drover's agent on the node, empty for other agents.
	AgentVersion string
	// AgentUpgrade is the text of KeyAgentUpgrade.
	AgentUpgrade string

	// Output, FailedOutput and PeriodicOutput are decoded and never nil. They may have names of former instructions.
	Output         map[string][]byte
	FailedOutput   map[string][]byte
	PeriodicOutput map[string]plan.PeriodicInstructionOutput
	// ProbeStatuses are decoded and never nil.
	ProbeStatuses map[string]plan.ProbeStatus

	// Failed means that the delivered plan failed as often as its failure threshold allows, or that an agent in state
	// mode reported a failure.
	Failed bool
	// InSync means that the delivered plan was applied.
	InSync bool
	// Healthy means that no probe is reported unhealthy. A new plan is healthy until the first report.
	Healthy bool
}

// Parse reads the data of a plan Secret. name (namespace/name) is only for errors. The error joins a *MalformedError
// for each malformed key. The State is as complete as the other keys permit, and a malformed plan is neither in sync
// nor failed.
func Parse(name string, data map[string][]byte) (State, error) {
	p := parser{name: name, data: data}
	s := State{
		PlanExists:       len(data[KeyPlan]) > 0,
		PlanBytes:        data[KeyPlan],
		Phase:            Phase(p.text(KeyPlanState)),
		Revision:         p.number(KeyPlanRevision),
		MaxFailures:      p.number(KeyMaxFailures),
		FailureThreshold: p.number(KeyFailureThreshold),
		AppliedChecksum:  p.text(KeyAppliedChecksum),
		FailedChecksum:   p.text(KeyFailedChecksum),
		FailureCount:     p.number(KeyFailureCount),
		SuccessCount:     p.number(KeySuccessCount),
		LastApplyTime:    p.text(KeyLastApplyTime),
		AgentVersion:     p.text(KeyAgentVersion),
		AgentUpgrade:     p.text(KeyAgentUpgrade),
	}
	// The reports share one budget. Those that other decisions depend on come first.
	b := newBudget()
	s.PeriodicOutput = take(&p, func() (map[string]plan.PeriodicInstructionOutput, error) {
		return decodeGzip[plan.PeriodicInstructionOutput](b, KeyAppliedPeriodicOutput, data[KeyAppliedPeriodicOutput])
	})
	s.ProbeStatuses = take(&p, func() (map[string]plan.ProbeStatus, error) {
		return decodeProbeStatuses(b, data[KeyProbeStatuses])
	})
	s.FailedOutput = take(&p, func() (map[string][]byte, error) {
		return decodeGzip[[]byte](b, KeyFailedOutput, data[KeyFailedOutput])
	})
	s.Output = take(&p, func() (map[string][]byte, error) {
		return decodeGzip[[]byte](b, KeyAppliedOutput, data[KeyAppliedOutput])
	})
	s.Healthy = len(s.UnhealthyProbes()) == 0
	decoded := false
	if s.PlanExists {
		var err error
		s.Plan, err = Decode(data[KeyPlan])
		s.Checksum = Checksum(data[KeyPlan])
		if decoded = err == nil; decoded {
			s.InSync, s.Failed = outcome(s, data[KeyAppliedPlan])
		}
		p.note(err)
	}
	s.AppliedPlan = p.appliedPlan(s, decoded)
	return s, errors.Join(p.errs...)
}

// outcome reports whether the delivered plan was applied and whether it failed. The report of an agent in state mode is
// authoritative. Otherwise, and while the state is pending, checksums and counters decide; older agents write only
// these.
func outcome(s State, appliedPlan []byte) (inSync, failed bool) {
	switch s.Phase {
	case PhaseSucceeded:
		return true, false
	case PhaseFailed:
		return false, true
	case PhaseInProgress:
		return false, false
	default:
	}
	// Older agents clear the checksum when they start. The copy counts only when no other plan was applied since
	// (Deliver).
	inSync = s.AppliedChecksum == s.Checksum || s.AppliedChecksum == "" && bytes.Equal(s.PlanBytes, appliedPlan)
	threshold := s.FailureThreshold
	if threshold == Unset {
		threshold = 1
	}
	failed = s.FailureCount > 0 && s.FailedChecksum == s.Checksum && threshold != NoLimit && s.FailureCount >= threshold
	return inSync, failed
}

// Works reports whether the delivered plan was applied and all its probes pass. A probe without a report does not pass.
func (s *State) Works() bool {
	if !s.InSync || s.Failed {
		return false
	}
	for name := range s.Plan.Probes {
		if !s.ProbeStatuses[name].Healthy {
			return false
		}
	}
	return true
}

// UnhealthyProbes returns the sorted names of the probes that are reported unhealthy.
func (s State) UnhealthyProbes() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(s.ProbeStatuses)) {
		if !s.ProbeStatuses[name].Healthy {
			names = append(names, name)
		}
	}
	return names
}

type parser struct {
	name string
	data map[string][]byte
	errs []error
}

func (p *parser) note(err error) {
	if bad, ok := errors.AsType[*MalformedError](err); ok {
		bad.Secret = p.name
	}
	if err != nil {
		p.errs = append(p.errs, err)
	}
}

// number reads a decimal. It returns 0, which is also Unset, for an absent or malformed value.
func (p *parser) number(key string) int {
	n, err := decodeNumber(key, p.data[key])
	p.note(err)
	return n
}

// text reads a short text. It returns "" for one that no agent writes.
func (p *parser) text(key string) string {
	if len(p.data[key]) > maxTextSize {
		p.note(malformed(key, errTextSize))
		return ""
	}
	return string(p.data[key])
}

// appliedPlan decodes the copy of the applied plan. It shares the memory of the delivered plan if both are equal.
func (p *parser) appliedPlan(s State, decoded bool) *plan.NodePlan {
	raw := p.data[KeyAppliedPlan]
	if len(raw) == 0 {
		return nil
	}
	if decoded && bytes.Equal(raw, s.PlanBytes) {
		same := s.Plan
		return &same
	}
	applied, err := Decode(raw)
	if bad, ok := errors.AsType[*MalformedError](err); ok {
		p.note(malformed(KeyAppliedPlan, bad.Reason))
		return nil
	}
	return &applied
}

func take[T any](p *parser, decode func() (T, error)) T {
	value, err := decode()
	p.note(err)
	return value
}

package nodeplan

import (
	"bytes"
	"errors"
	"maps"
	"slices"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
)

// State is a plan secret as the server understands it (docs/wire/plan.md#outcome). It is a value: it can be compared
// and marshalled.
type State struct {
	// PlanExists tells whether a plan was ever delivered. Everything else is meaningless without one.
	PlanExists bool
	// Plan is the delivered plan.
	Plan plan.NodePlan
	// PlanBytes are the exact bytes of the delivered plan, those the checksum is taken over.
	PlanBytes []byte
	// Checksum is that of PlanBytes, empty without a plan.
	Checksum string

	// AppliedPlan is the plan that was applied last, nil when none was or its copy is malformed.
	AppliedPlan *plan.NodePlan

	// Phase and Revision are what an agent in state mode reported; normally empty and 0.
	Phase    Phase
	Revision int

	// MaxFailures and FailureThreshold are the limits of the delivery; Unset when the keys are absent.
	MaxFailures      int
	FailureThreshold int

	// AppliedChecksum and FailedChecksum are those of the plan the agent applied last and of the one that failed last.
	AppliedChecksum string
	FailedChecksum  string
	FailureCount    int
	SuccessCount    int
	// LastApplyTime is text in the layout of time.UnixDate.
	LastApplyTime string

	// Output, FailedOutput and PeriodicOutput are decoded, never nil, and may hold names of former instructions.
	Output         map[string][]byte
	FailedOutput   map[string][]byte
	PeriodicOutput map[string]plan.PeriodicInstructionOutput
	// ProbeStatuses are decoded, never nil.
	ProbeStatuses map[string]plan.ProbeStatus

	// Failed: the delivered plan failed as often as its failure threshold allows, or an agent in state mode said so.
	Failed bool
	// InSync: the delivered plan was applied.
	InSync bool
	// Healthy: no probe is reported unhealthy. A plan just delivered is healthy until the first report.
	Healthy bool
}

// Parse reads the data of a plan secret. name (namespace/name) is for errors only. Malformed keys are reported all
// together, each as a *MalformedError; the State is as complete as the other keys allow, a malformed plan being neither in
// sync nor failed.
func Parse(name string, data map[string][]byte) (State, error) {
	p := parser{name: name, data: data}
	s := State{
		PlanExists:       len(data[KeyPlan]) > 0,
		PlanBytes:        data[KeyPlan],
		Phase:            Phase(data[KeyPlanState]),
		Revision:         p.number(KeyPlanRevision),
		MaxFailures:      p.number(KeyMaxFailures),
		FailureThreshold: p.number(KeyFailureThreshold),
		AppliedChecksum:  string(data[KeyAppliedChecksum]),
		FailedChecksum:   string(data[KeyFailedChecksum]),
		FailureCount:     p.number(KeyFailureCount),
		SuccessCount:     p.number(KeySuccessCount),
		LastApplyTime:    string(data[KeyLastApplyTime]),
	}
	s.Output = take(&p, func() (map[string][]byte, error) { return DecodeOutput(KeyAppliedOutput, data[KeyAppliedOutput]) })
	s.FailedOutput = take(&p, func() (map[string][]byte, error) { return DecodeOutput(KeyFailedOutput, data[KeyFailedOutput]) })
	s.PeriodicOutput = take(&p, func() (map[string]plan.PeriodicInstructionOutput, error) {
		return DecodePeriodicOutput(data[KeyAppliedPeriodicOutput])
	})
	s.ProbeStatuses = take(&p, func() (map[string]plan.ProbeStatus, error) { return DecodeProbeStatuses(data[KeyProbeStatuses]) })
	s.Healthy = len(s.UnhealthyProbes()) == 0
	s.AppliedPlan = p.appliedPlan()
	if s.PlanExists {
		var err error
		s.Plan, err = Decode(data[KeyPlan])
		s.Checksum = Checksum(data[KeyPlan])
		if err == nil {
			s.InSync, s.Failed = outcome(s, data[KeyAppliedPlan])
		}
		p.note(err)
	}
	return s, errors.Join(p.errs...)
}

// outcome tells whether the delivered plan was applied and whether it failed. What an agent in state mode reports is
// authoritative; otherwise, and while it is pending, checksums and counters decide, which is all that older agents write.
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
	// Older agents empty the checksum when they start. The copy says nothing when they have applied another plan since (Deliver).
	inSync = s.AppliedChecksum == s.Checksum || s.AppliedChecksum == "" && bytes.Equal(s.PlanBytes, appliedPlan)
	threshold := s.FailureThreshold
	if threshold == Unset {
		threshold = 1
	}
	failed = s.FailureCount > 0 && s.FailedChecksum == s.Checksum && threshold != NoLimit && s.FailureCount >= threshold
	return inSync, failed
}

// Works tells whether the delivered plan was applied and all its probes pass. A probe without a report has not passed.
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

// number reads a decimal; 0, which is also Unset, when it is absent or malformed.
func (p *parser) number(key string) int {
	n, err := decodeNumber(key, p.data[key])
	p.note(err)
	return n
}

func (p *parser) appliedPlan() *plan.NodePlan {
	raw := p.data[KeyAppliedPlan]
	if len(raw) == 0 {
		return nil
	}
	applied, err := Decode(raw)
	if err != nil {
		p.note(&MalformedError{Key: KeyAppliedPlan, Reason: errNotJSON})
		return nil
	}
	return &applied
}

func take[T any](p *parser, decode func() (T, error)) T {
	value, err := decode()
	p.note(err)
	return value
}

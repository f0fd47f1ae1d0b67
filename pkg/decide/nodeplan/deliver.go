package nodeplan

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
)

// Delivery is a plan with its limits. Each limit is a positive number, NoLimit or Unset.
type Delivery struct {
	// Plan has the bytes from Encode.
	Plan []byte
	// MaxFailures is the number of the agent's attempts.
	MaxFailures int
	// FailureThreshold is the number of failures at which the server calls the plan failed. Unset counts as 1.
	FailureThreshold int
}

// Deliver returns the data of a plan Secret with a new plan. It removes the probe statuses of the former plan, which
// would otherwise count for the new one. It removes the state-mode key, which would make an agent ignore the new plan.
// A plan that was applied, was replaced and comes back counts as not applied; KeyAppliedChecksum then becomes the
// checksum of the replaced plan. All other keys stay. Deliver does not modify the given map. It returns an error if the
// threshold can never be reached.
func Deliver(data map[string][]byte, d Delivery) (map[string][]byte, error) {
	if d.MaxFailures > 0 && d.FailureThreshold > d.MaxFailures {
		return nil, fmt.Errorf("failureThreshold %d cannot be greater than maxFailures %d", d.FailureThreshold,
			d.MaxFailures)
	}
	out := maps.Clone(data)
	if out == nil {
		out = map[string][]byte{}
	}
	out[KeyPlan] = d.Plan
	delete(out, KeyProbeStatuses)
	if Phase(data[KeyPlanState]) == PhaseFailed && bytes.Equal(data[KeyPlan], d.Plan) {
		// An agent in state mode records a failed plan as applied (docs/wire/plan.md#state-mode), and other servers
		// copy it. The plan would never run again.
		delete(out, KeyAppliedChecksum)
		if bytes.Equal(data[KeyAppliedPlan], d.Plan) {
			delete(out, KeyAppliedPlan)
		}
	}
	if replaced := data[KeyPlan]; len(replaced) > 0 && mayHaveChanged(data, d.Plan) {
		// The node may have applied part of the replaced plan. Without this, both the agent and the server would take
		// the earlier plan as still applied.
		out[KeyAppliedChecksum] = []byte(Checksum(replaced))
	}
	delete(out, KeyPlanState)
	setLimit(out, KeyMaxFailures, d.MaxFailures)
	setLimit(out, KeyFailureThreshold, d.FailureThreshold)
	return out, nil
}

// mayHaveChanged reports whether the delivered plan counts as applied and replaces another plan that does not. The
// replaced plan may have failed halfway, or may still be running.
func mayHaveChanged(data map[string][]byte, delivered []byte) bool {
	applied := string(data[KeyAppliedChecksum])
	counts := applied == Checksum(delivered) || applied == "" && bytes.Equal(data[KeyAppliedPlan], delivered)
	return counts && !bytes.Equal(data[KeyPlan], delivered)
}

func setLimit(data map[string][]byte, key string, limit int) {
	if limit <= 0 && limit != NoLimit {
		delete(data, key)
		return
	}
	data[key] = strconv.AppendInt(nil, int64(limit), 10)
}

// Applied returns the data of a plan Secret with the server's notes on an agent's report: a copy of the applied plan,
// and the output of periodic instructions without those that left the plan. Without notes, changed is false and the
// result is the given map. Applied does not modify the given map and leaves malformed keys alone.
func Applied(data map[string][]byte) (out map[string][]byte, changed bool) {
	out = maps.Clone(data)
	if raw := data[KeyPlan]; len(raw) > 0 && string(data[KeyAppliedChecksum]) == Checksum(raw) &&
		Phase(data[KeyPlanState]) != PhaseFailed && !bytes.Equal(data[KeyAppliedPlan], raw) {
		out[KeyAppliedPlan] = raw
		changed = true
	}
	if pruned, ok := prunePeriodic(data); ok {
		out[KeyAppliedPeriodicOutput] = pruned
		changed = true
	}
	if !changed {
		return data, false
	}
	return out, true
}

// prunePeriodic returns the periodic output of the instructions in the plan, or no bytes when none is left.
func prunePeriodic(data map[string][]byte) ([]byte, bool) {
	if len(data[KeyPlan]) == 0 {
		return nil, false
	}
	current, err := Decode(data[KeyPlan])
	if err != nil {
		return nil, false
	}
	output, err := DecodePeriodicOutput(data[KeyAppliedPeriodicOutput])
	if err != nil || len(output) == 0 {
		return nil, false
	}
	before := len(output)
	maps.DeleteFunc(output, func(name string, _ plan.PeriodicInstructionOutput) bool {
		return !slices.ContainsFunc(current.PeriodicInstructions, func(i plan.PeriodicInstruction) bool {
			return i.Name == name
		})
	})
	if len(output) == before {
		return nil, false
	}
	if len(output) == 0 {
		return []byte{}, true
	}
	encoded, err := EncodePeriodicOutput(output)
	return encoded, err == nil
}

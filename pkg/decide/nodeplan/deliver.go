package nodeplan

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
)

// Delivery is a plan together with its limits: a positive number, NoLimit or Unset.
type Delivery struct {
	// Plan are the bytes made by Encode.
	Plan []byte
	// MaxFailures is the number of attempts the agent makes.
	MaxFailures int
	// FailureThreshold is the number of failures from which the server calls the plan failed. Unset counts as 1.
	FailureThreshold int
}

// Deliver returns the data of a plan secret with a new plan in it. It also removes the probe statuses of the former plan,
// which would otherwise speak for the new one, and the state-mode key, which would make an agent ignore the new plan. A
// plan that was applied, was replaced and comes back counts as not applied: KeyAppliedChecksum is that of the replaced one then. All other keys
// stay. The given map is not changed. It is an error if the threshold could never be reached.
func Deliver(data map[string][]byte, d Delivery) (map[string][]byte, error) {
	if d.MaxFailures > 0 && d.FailureThreshold > d.MaxFailures {
		return nil, fmt.Errorf("failureThreshold %d cannot be greater than maxFailures %d", d.FailureThreshold, d.MaxFailures)
	}
	out := maps.Clone(data)
	if out == nil {
		out = map[string][]byte{}
	}
	out[KeyPlan] = d.Plan
	delete(out, KeyProbeStatuses)
	if Phase(data[KeyPlanState]) == PhaseFailed && bytes.Equal(data[KeyPlan], d.Plan) {
		// An agent in state mode notes a plan that failed as applied (docs/wire/plan.md#state-mode), and other servers
		// copy it as such. It would never run again.
		delete(out, KeyAppliedChecksum)
		if bytes.Equal(data[KeyAppliedPlan], d.Plan) {
			delete(out, KeyAppliedPlan)
		}
	}
	if replaced := data[KeyPlan]; len(replaced) > 0 && mayHaveChanged(data, d.Plan) {
		// The node may have some of the plan that is replaced now. Its agent would take the one from before for applied, and so would the server.
		out[KeyAppliedChecksum] = []byte(Checksum(replaced))
	}
	delete(out, KeyPlanState)
	setLimit(out, KeyMaxFailures, d.MaxFailures)
	setLimit(out, KeyFailureThreshold, d.FailureThreshold)
	return out, nil
}

// mayHaveChanged tells whether a plan is delivered that counts as applied, in the place of another that did not get that far. That one may have
// failed half way, or be at work.
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

// Applied returns the data of a plan secret with what the server notes after an agent's report: the copy of an applied
// plan, and the output of periodic instructions without those that the plan no longer has. changed is false, and the given
// map returned, when there is nothing to note. The given map is never changed. Malformed keys are left as they are.
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

// prunePeriodic returns the periodic output without the entries of instructions that are not in the plan; no bytes at all
// when none is left.
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
		return !slices.ContainsFunc(current.PeriodicInstructions, func(i plan.PeriodicInstruction) bool { return i.Name == name })
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

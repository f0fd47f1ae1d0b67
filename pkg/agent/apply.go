package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// maxFailureTail is how many bytes of output are kept for a failed instruction without saveOutput.
const maxFailureTail = 8 << 10

// errRestartPending means that an install script asked the agent to start nothing new.
var errRestartPending = errors.New("an install script is about to restart the agent")

// applyInput is the input of one pass over one plan.
type applyInput struct {
	plan     plan.NodePlan
	checksum string
	// from is the plan Secret that contains the plan. It is zero for a plan from a file.
	from source
	// apply runs files and one-time instructions. Without it, only periodic instructions that are due run.
	apply   bool
	attempt int
	// periodic and probes are the states before this pass.
	periodic map[string]plan.PeriodicInstructionOutput
	probes   map[string]plan.ProbeStatus
}

// applier applies plans from all sources, one at a time.
type applier struct {
	mu        sync.Mutex
	workDir   string
	preserve  bool
	interlock interlock
	history   history
	runner    runner
	log       logrus.FieldLogger
	now       func() time.Time
}

// apply makes one pass: files and one-time instructions if requested, periodic instructions, probes. It fails with
// errRestartPending, when the scratch directory cannot be cleared, or when the context ends. After an error the caller
// reports nothing.
func (a *applier) apply(ctx context.Context, in applyInput) (result, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.interlock.restartPending() {
		return result{}, errRestartPending
	}
	r, err := a.instructions(ctx, in)
	if err != nil {
		return result{}, err
	}
	if ctx.Err() != nil {
		return result{}, fmt.Errorf("the plan was interrupted: %w", ctx.Err())
	}
	r.probes = probeAll(ctx, a.log, in.plan.Probes, in.probes, in.apply)
	return r, nil
}

// instructions is apply without the probes.
func (a *applier) instructions(ctx context.Context, in applyInput) (result, error) {
	defer a.interlock.activate()()
	if err := a.clearWork(); err != nil {
		return result{}, err
	}
	defer func() {
		if err := a.clearWork(); err != nil {
			a.log.WithError(err).Warn("Cannot remove scratch directories")
		}
	}()
	base := filepath.Join(a.workDir, a.now().UTC().Format(stampLayout))
	r := result{applied: in.apply, succeeded: in.apply, output: map[string][]byte{}}
	if in.apply {
		a.log.WithField("checksum", in.checksum).WithField("attempt", in.attempt).Info("Applying plan")
		if problem := a.applyOnce(ctx, in, base, r.output); problem != "" {
			r.succeeded = false
			a.log.WithField("checksum", in.checksum).Error(problem)
		}
	}
	r.periodic = a.runPeriodic(ctx, in, func(name string) string {
		return filepath.Join(base, in.checksum+"_periodic_"+strconv.Itoa(indexOf(in.plan.PeriodicInstructions, name)))
	})
	if r.applied && r.succeeded && ctx.Err() == nil {
		if err := a.history.add(in.plan, in.checksum, in.from, a.now()); err != nil {
			a.log.WithError(err).Warn("Cannot record the applied plan on this machine; the plan runs again after a " +
				"restart of the agent")
		}
	}
	r.at = a.now()
	return r, nil
}

// applyOnce writes files, then runs one-time instructions in order until one fails. It fills output and returns the
// problem, which is empty on success.
func (a *applier) applyOnce(ctx context.Context, in applyInput, base string, output map[string][]byte) string {
	if err := writeFiles(in.plan.Files); err != nil {
		output[nodeplan.OutputAgentError] = []byte(err.Error())
		return "Cannot write files: " + err.Error()
	}
	for i, instruction := range in.plan.Instructions {
		begin := a.now()
		r := a.runner.execute(ctx, run{
			instruction: instruction.CommonInstruction,
			dir:         filepath.Join(base, in.checksum+"_"+strconv.Itoa(i)),
			attempt:     in.attempt,
			merge:       true,
		})
		if r.exitCode > 0 {
			r.stdout = append(r.stdout, a.runner.journal(ctx, instruction, begin)...)
		}
		if instruction.SaveOutput && instruction.Name != "" {
			output[instruction.Name] = r.stdout
		}
		if r.exitCode == 0 {
			continue
		}
		keepFailure(output, instruction, r)
		if r.problem != "" {
			return fmt.Sprintf("Instruction %q failed: %s", instruction.Name, r.problem)
		}
		return fmt.Sprintf("Instruction %q failed with exit code %d", instruction.Name, r.exitCode)
	}
	return ""
}

// keepFailure adds the reason of a failure to the report, even when the instruction does not save its output.
func keepFailure(output map[string][]byte, instruction plan.OneTimeInstruction, r ran) {
	failure := nodeplan.Failure{Instruction: instruction.Name}
	if r.problem == "" {
		failure.ExitCode = r.exitCode
	}
	output[nodeplan.OutputFailure] = failure.Encode()
	if r.problem != "" {
		output[nodeplan.OutputAgentError] = []byte(r.problem)
		return
	}
	if _, saved := output[instruction.Name]; saved || instruction.Name == "" {
		return
	}
	output[instruction.Name] = r.stdout[max(0, len(r.stdout)-maxFailureTail):]
}

// clearWork empties the scratch directory.
func (a *applier) clearWork() error {
	if a.preserve {
		return nil
	}
	if err := os.RemoveAll(a.workDir); err != nil {
		return fmt.Errorf("clear work directory: %w", err)
	}
	return nil
}

func indexOf(instructions []plan.PeriodicInstruction, name string) int {
	for i, instruction := range instructions {
		if instruction.Name == name {
			return i
		}
	}
	return -1
}

package agent

import (
	"context"
	"time"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
)

// maxPeriodicCooldown is the number of failures after which the pause of a failing periodic instruction stops growing.
const maxPeriodicCooldown = 6

// due reports whether a periodic instruction must run. force is set in a pass that ran one-time instructions.
func due(i plan.PeriodicInstruction, last plan.PeriodicInstructionOutput, force bool, now time.Time) bool {
	if force {
		return true
	}
	if last.LastFailedRunTime != "" && last.Failures > 0 {
		return age(last.LastFailedRunTime, now) >= retryCooldown*time.Duration(min(last.Failures, maxPeriodicCooldown))
	}
	return last.LastSuccessfulRunTime == "" || age(last.LastSuccessfulRunTime, now) >= period(i)
}

func period(i plan.PeriodicInstruction) time.Duration {
	if i.PeriodSeconds <= 0 {
		return plan.DefaultPeriodSeconds * time.Second
	}
	return time.Duration(i.PeriodSeconds) * time.Second
}

// periodicEntry is the output entry after a run that ended at now.
func periodicEntry(i plan.PeriodicInstruction, last plan.PeriodicInstructionOutput, r ran,
	now time.Time) plan.PeriodicInstructionOutput {
	out := plan.PeriodicInstructionOutput{
		Name: i.Name, Stdout: r.stdout, ExitCode: r.exitCode, LastSuccessfulRunTime: last.LastSuccessfulRunTime,
	}
	if i.SaveStderrOutput {
		out.Stderr = r.stderr
	}
	if r.exitCode == 0 {
		out.LastSuccessfulRunTime = unixDate(now)
		return out
	}
	out.Failures = last.Failures + 1
	out.LastFailedRunTime = unixDate(now)
	return out
}

// runPeriodic runs the instructions that are due and returns the entries of all periodic instructions of the plan. It
// does not log their output, which is often secret. A run is killed after its period, but not before ten minutes. So a
// hanging instruction cannot block later plans on this node.
func (a *applier) runPeriodic(ctx context.Context, in applyInput,
	dir func(name string) string) map[string]plan.PeriodicInstructionOutput {
	out := map[string]plan.PeriodicInstructionOutput{}
	for _, instruction := range in.plan.PeriodicInstructions {
		if instruction.Name == "" {
			a.log.Warn("Skipping a periodic instruction without a name")
			continue
		}
		last, known := in.periodic[instruction.Name]
		if !due(instruction, last, in.apply, a.now()) || ctx.Err() != nil {
			if known {
				out[instruction.Name] = last
			}
			continue
		}
		limited, cancel := context.WithTimeout(ctx, max(period(instruction), plan.DefaultPeriodSeconds*time.Second))
		r := a.runner.execute(limited, run{
			instruction: instruction.CommonInstruction, dir: dir(instruction.Name), attempt: last.Failures + 1,
		})
		cancel()
		if r.exitCode != 0 {
			a.log.WithField("instruction", instruction.Name).WithField("exitCode",
				r.exitCode).Warn("Periodic instruction failed")
		}
		out[instruction.Name] = periodicEntry(instruction, last, r, a.now())
	}
	return out
}

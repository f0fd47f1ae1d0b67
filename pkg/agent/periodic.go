package agent

import (
	"context"
	"time"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
)

// maxPeriodicCooldown is the number of failures after which the pause of a failing periodic instruction grows no more.
const maxPeriodicCooldown = 6

// due tells whether a periodic instruction must run. force is set in a pass in which one-time instructions ran.
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

// periodicEntry is the output entry after a run. now is when it ended.
func periodicEntry(i plan.PeriodicInstruction, last plan.PeriodicInstructionOutput, r ran, now time.Time) plan.PeriodicInstructionOutput {
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

// runPeriodic runs what is due and returns the entries of all periodic instructions of the plan. Their output is not logged:
// it is read by the server and often secret. A run ends after its period, but not before ten minutes, so that one that
// hangs cannot keep every later plan from this node.
func (a *applier) runPeriodic(ctx context.Context, in applyInput, dir func(name string) string) map[string]plan.PeriodicInstructionOutput {
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
			a.log.WithField("instruction", instruction.Name).WithField("exitCode", r.exitCode).Warn("Periodic instruction failed")
		}
		out[instruction.Name] = periodicEntry(instruction, last, r, a.now())
	}
	return out
}

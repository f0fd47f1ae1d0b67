package cmd

import (
	"context"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"github.com/drover-io/drover/pkg/kube/logs"
)

// smallProgram is what the programs that Drover installs in clusters have in common: they log, and take little memory.
type smallProgram struct {
	logLevel, logFormat string
}

// addTo adds the flags of the log.
func (o *smallProgram) addTo(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.logLevel, "log-level", "info", "least `level` of messages: debug, info, warning or error")
	f.StringVar(&o.logFormat, "log-format", logs.FormatText, "`format` of messages: text or json")
	for flag, values := range map[string][]string{
		"log-level": {"debug", "info", "warning", "error"}, "log-format": {logs.FormatText, logs.FormatJSON},
	} {
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
}

// run makes the log and runs the program until it ends.
func (o *smallProgram) run(cmd *cobra.Command, environ []string, program func(context.Context, logrus.FieldLogger) error) error {
	log, err := logs.New(cmd.ErrOrStderr(), o.logFormat, o.logLevel)
	if err != nil {
		return err
	}
	logs.Libraries(log) // this is the program, so the process-wide loggers are ours to set
	beSmall(environ)
	ctx, stop := context.WithCancel(cmd.Context())
	defer stop()
	go staySmall(ctx)
	return program(ctx, log)
}

// smallGCPercent is how much memory is used again before it is collected, as a part of what is in use. Most of that is what packages that the agent does
// not need are set up with, and going through it costs little.
const smallGCPercent = 50

// smallProcessors is on how many processors the process runs at once. What it does for a request is short, and handing it from one processor to the other
// takes longer. (docs/performance.md.)
const smallProcessors = 1

// beSmall keeps the process small: every cluster has it, and it has little to do. Who has set GOGC or GOMAXPROCS wants something else.
func beSmall(environ []string) {
	given := func(variable string) bool {
		return slices.ContainsFunc(environ, func(pair string) bool { return strings.HasPrefix(pair, variable+"=") })
	}
	if !given("GOGC") {
		debug.SetGCPercent(smallGCPercent)
	}
	if !given("GOMAXPROCS") {
		runtime.GOMAXPROCS(smallProcessors)
	}
	debug.FreeOSMemory()
	releasePages()
}

// giveBackEvery is how often the process gives back what it does not need now. What it needs again costs some hundred faults, which take less than a
// millisecond together.
const giveBackEvery = time.Minute

// staySmall gives memory back until the context ends: what was needed to connect, or for many requests at once, is not needed afterwards.
func staySmall(ctx context.Context) {
	tick := time.NewTicker(giveBackEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			debug.FreeOSMemory()
			releasePages()
		}
	}
}

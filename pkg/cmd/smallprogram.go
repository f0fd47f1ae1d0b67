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
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/drover-io/drover/pkg/kube/logs"
)

// smallProgram is common to the programs that Drover installs in clusters: logging and low memory use.
type smallProgram struct {
	logLevel, logFormat string
}

// addTo adds the flags of the log.
func (o *smallProgram) addTo(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.logLevel, "log-level", "info", "lowest `level` of log messages: debug, info, warning or error")
	f.StringVar(&o.logFormat, "log-format", logs.FormatText, "`format` of log messages: text or json")
	for flag, values := range map[string][]string{
		"log-level": {"debug", "info", "warning", "error"}, "log-format": {logs.FormatText, logs.FormatJSON},
	} {
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
}

// run creates the log and runs the program until it ends.
func (o *smallProgram) run(cmd *cobra.Command, environ []string,
	program func(context.Context, logrus.FieldLogger) error) error {
	log, err := logs.New(cmd.ErrOrStderr(), o.logFormat, o.logLevel)
	if err != nil {
		return err
	}
	logs.Libraries(log) // the program owns the process-wide loggers
	limitResources(environ)
	ctx, stop := context.WithCancel(cmd.Context())
	defer stop()
	go releaseMemory(ctx)
	return program(ctx, log)
}

// smallGCPercent is GOGC for these programs. Most of the heap is the initialization of packages that they do not need,
// and collecting it costs little.
const smallGCPercent = 50

// smallProcessors is GOMAXPROCS for these programs. The work for a request is short, and moving it to another processor
// takes longer. (docs/performance.md.)
const smallProcessors = 1

// limitResources keeps the process small, because every cluster runs it and it has little work. GOGC and GOMAXPROCS of
// the environment take precedence.
func limitResources(environ []string) {
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

// giveBackEvery is how often the process releases memory that it does not need. Reading needed pages again costs some
// hundred page faults, less than a millisecond in total.
const giveBackEvery = time.Minute

// releaseMemory releases memory until the context ends, for example after connecting or after many simultaneous
// requests.
func releaseMemory(ctx context.Context) {
	_ = wait.PollUntilContextCancel(ctx, giveBackEvery, false, func(context.Context) (bool, error) {
		debug.FreeOSMemory()
		releasePages()
		return false, nil
	})
}

package entrypoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Config is the environment of one run.
type Config struct {
	// Args is the command line without the program's name.
	Args []string
	// Environment is rancher-machine's environment, as NAME=VALUE.
	Environment []string
	// Program is the path of rancher-machine.
	Program string
	// DriverDirectory is an existing directory for drivers.
	DriverDirectory string
	// PrivateDirectory is an existing directory that only this user can read.
	PrivateDirectory string
	// TerminationLog is a file to which all output is appended. A file that cannot be opened is ignored.
	TerminationLog string
	// Output receives all output.
	Output io.Writer
	// Client downloads the driver.
	Client *http.Client
	// RetryAfter is the time between attempts to download the driver, or to reach the API.
	RetryAfter time.Duration
}

// failed is the exit status when rancher-machine could not start.
const failed = 1

// stopGrace is the time that rancher-machine has to end after the pod is stopped.
const stopGrace = 20 * time.Second

// Run runs one invocation and returns the exit status of the process. When ctx is canceled, Run ends rancher-machine
// with SIGTERM.
func Run(ctx context.Context, c Config) int {
	output := io.Writer(&shared{w: c.Output})
	if log, err := os.OpenFile(c.TerminationLog, os.O_APPEND|os.O_WRONLY, 0); err == nil {
		defer func() { _ = log.Close() }()
		output = &shared{w: io.MultiWriter(c.Output, log)}
	}
	in := ParseInvocation(c.Args)
	if in.DriverURL != "" {
		if in.DriverHash == "" {
			say(output, "without --driver-hash, the driver is not verified")
		}
		path, err := InstallDriver(ctx, c.Client, in.DriverURL, in.DriverHash, c.DriverDirectory, c.RetryAfter)
		if err != nil {
			say(output, err.Error())
			return failed
		}
		say(output, "installed "+filepath.Base(path))
	}
	args, stop, err := withRelay(ctx, c, in.Arguments, c.PrivateDirectory, output)
	if err != nil {
		say(output, err.Error())
		return failed
	}
	defer stop()
	return execute(ctx, c, args, output)
}

func execute(ctx context.Context, c Config, args []string, output io.Writer) int {
	cmd := exec.CommandContext(ctx, c.Program, args...)
	cmd.Env = withPath(c.Environment, c.DriverDirectory, filepath.Dir(c.Program))
	cmd.Stdout, cmd.Stderr = output, output
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopGrace
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() >= 0 {
		return exit.ExitCode()
	}
	if err != nil {
		say(output, "run rancher-machine: "+err.Error())
		return failed
	}
	return 0
}

// withPath prepends directories to the PATH of an environment.
func withPath(environment []string, directories ...string) []string {
	front := strings.Join(directories, string(os.PathListSeparator))
	out := make([]string, 0, len(environment)+1)
	found := false
	for _, entry := range environment {
		if value, ok := strings.CutPrefix(entry, "PATH="); ok {
			entry, found = "PATH="+front+string(os.PathListSeparator)+value, true
		}
		out = append(out, entry)
	}
	if !found {
		out = append(out, "PATH="+front)
	}
	return out
}

// shared serializes the writes of rancher-machine and this program.
type shared struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}

func say(output io.Writer, message string) { _, _ = fmt.Fprintln(output, message) }

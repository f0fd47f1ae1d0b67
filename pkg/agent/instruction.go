package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/sirupsen/logrus"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
)

// notStarted is the exit code of an instruction that could not be started.
const notStarted = -1

// maxSavedOutput limits the saved output of one instruction, in bytes. The end is kept. A Secret can hold 1 MiB in
// total.
const maxSavedOutput = 512 << 10

// Environment variables of instructions (docs/wire/plan.md#instructions). Install scripts in installer images read
// them.
const (
	envExecutionDir  = "CATTLE_AGENT_EXECUTION_PWD"
	envAttemptNumber = "CATTLE_AGENT_ATTEMPT_NUMBER"
)

// run is one execution of an instruction.
type run struct {
	instruction plan.CommonInstruction
	// dir is the scratch directory. It is the working directory, contains the unpacked image, and is the last entry of
	// PATH.
	dir     string
	attempt int
	// merge combines both streams in the order of writing and logs each line. Otherwise the streams are separate and
	// not logged.
	merge bool
}

// ran is the result of a run.
type ran struct {
	exitCode int
	// stdout contains both streams if they were merged.
	stdout, stderr []byte
	// problem is why the instruction could not start. It is empty if it ran.
	problem string
}

// runner runs one instruction at a time.
type runner struct {
	environ []string
	images  imageStager
	// runningFile records the process group of the running instruction. The next agent reads it if this one is killed.
	runningFile string
	log         logrus.FieldLogger
}

// execute stages the image and runs the command. Problems before the start become a failure of the instruction.
func (r runner) execute(ctx context.Context, x run) ran {
	if err := os.MkdirAll(x.dir, 0o700); err != nil {
		return ran{exitCode: notStarted, problem: fmt.Sprintf("make scratch directory: %v", err)}
	}
	if x.instruction.Image != "" {
		if err := r.images.stage(ctx, x.instruction.Image, x.dir); err != nil {
			return ran{exitCode: notStarted, problem: fmt.Sprintf("stage image %s: %v", x.instruction.Image, err)}
		}
	}
	env := r.environment(x)
	path, err := findCommand(x.instruction.Command, x.dir, variable(r.environ, "PATH"))
	if err != nil {
		return ran{exitCode: notStarted, problem: err.Error()}
	}
	return r.start(ctx, path, env, x)
}

func (r runner) start(ctx context.Context, path string, env []string, x run) ran {
	stdout, stderr := &tail{}, &tail{}
	cmd := exec.CommandContext(ctx, path, x.instruction.Args...)
	cmd.Dir, cmd.Env = x.dir, env
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if x.merge {
		stdout.lines = &lineLogger{log: r.log.WithField("instruction", x.instruction.Name)}
		cmd.Stderr = stdout // a single writer means one pipe and one order
	}
	// In its own process group, the context or the next agent can end all processes of the instruction.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	// A background process that keeps the output open must not block the plan forever.
	cmd.WaitDelay = outputGrace
	if err := cmd.Start(); err != nil {
		return ran{exitCode: notStarted, problem: fmt.Sprintf("start %s: %v", path, err)}
	}
	forget := recordRunning(r.runningFile, cmd.Process.Pid)
	err := cmd.Wait()
	forget()
	out := ran{stdout: stdout.bytes(), stderr: stderr.bytes(), exitCode: cmd.ProcessState.ExitCode()}
	if err != nil && out.exitCode == 0 && !errors.Is(err, exec.ErrWaitDelay) {
		out.exitCode, out.problem = notStarted, fmt.Sprintf("wait for %s: %v", path, err)
	}
	return out
}

// environment joins the agent's environment, the instruction's, and the protocol's variables. The last value of a name
// wins.
func (r runner) environment(x run) []string {
	env := append([]string{}, r.environ...)
	env = append(env, x.instruction.Env...)
	return append(env,
		envExecutionDir+"="+x.dir,
		envAttemptNumber+"="+strconv.Itoa(x.attempt),
		"PATH="+variable(r.environ, "PATH")+string(os.PathListSeparator)+x.dir,
	)
}

// variable returns the last value of a name in an environment.
func variable(environ []string, name string) string {
	value := ""
	for _, pair := range environ {
		if v, ok := strings.CutPrefix(pair, name+"="); ok {
			value = v
		}
	}
	return value
}

// findCommand looks up a command in the agent's PATH, not in the scratch directory (docs/wire/plan.md#instructions). An
// empty command means run.sh of the staged image.
func findCommand(command, dir, searchPath string) (string, error) {
	if command == "" {
		return filepath.Join(dir, "run.sh"), nil
	}
	if strings.Contains(command, "/") {
		return command, nil
	}
	for _, place := range filepath.SplitList(searchPath) {
		candidate := filepath.Join(place, command)
		info, err := os.Stat(candidate)
		if err == nil && !info.IsDir() && info.Mode()&0o111 != 0 && filepath.IsAbs(candidate) {
			return candidate, nil
		}
	}
	return "", fmt.Errorf("find command %s: %w", command, fs.ErrNotExist)
}

// tail keeps the last maxSavedOutput bytes.
type tail struct {
	buf   bytes.Buffer
	lines *lineLogger
}

func (t *tail) Write(p []byte) (int, error) {
	t.buf.Write(p)
	if t.buf.Len() > 2*maxSavedOutput {
		t.buf.Next(t.buf.Len() - maxSavedOutput)
	}
	if t.lines != nil {
		t.lines.write(p)
	}
	return len(p), nil
}

// bytes ends the output. It returns nil when nothing was written, because the protocol encodes that as null.
func (t *tail) bytes() []byte {
	if t.lines != nil {
		t.lines.flush()
	}
	if t.buf.Len() > maxSavedOutput {
		t.buf.Next(t.buf.Len() - maxSavedOutput)
	}
	if t.buf.Len() == 0 {
		return nil
	}
	return t.buf.Bytes()
}

// lineLogger logs whole lines, and splits long ones.
type lineLogger struct {
	log  logrus.FieldLogger
	rest []byte
}

func (l *lineLogger) write(p []byte) {
	l.rest = append(l.rest, p...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if !found && len(l.rest) < maxLogLine {
			return
		}
		if !found {
			line, rest = l.rest[:maxLogLine], l.rest[maxLogLine:]
		}
		l.log.Info(string(line))
		l.rest = append([]byte{}, rest...)
	}
}

func (l *lineLogger) flush() {
	if len(l.rest) > 0 {
		l.log.Info(string(l.rest))
		l.rest = nil
	}
}

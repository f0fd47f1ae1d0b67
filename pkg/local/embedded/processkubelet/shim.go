package processkubelet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Names under which drover-kube runs the processes around a container.
const (
	ShimProgram = "process-shim"
	InitProgram = "process-init"
	ExecProgram = "process-exec"
)

// killSignal asks a shim to kill its container at once. SIGTERM asks it to pass SIGTERM on.
const killSignal = syscall.SIGUSR1

// ShimMain runs one attempt of one container. args[1] is the attempt's directory.
//
// It ensures that a container runs exactly once. A restarted kubelet cannot tell whether its shim had started, so it
// starts another shim for the same directory. A shim first takes a lock for its lifetime, and then creates the claim
// file, which must not exist. A second shim fails at one of the two steps and ends without touching the container. When
// a kubelet gets the lock, no shim runs. A claim without an exit record then means that the shim and the container were
// lost, for example when the machine was switched off. The kubelet reports the container as lost and does not run it
// again.
func ShimMain(args []string) int {
	if len(args) != 2 {
		fmt.Fprintln(os.Stderr, "process-shim: the directory of an attempt is required; the process kubelet starts "+
			"this program")
		return 2
	}
	dir := args[1]
	// From here on, no signal except SIGKILL ends this process, so a claimed attempt gets an exit record.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, killSignal, syscall.SIGINT, syscall.SIGHUP)
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, "process-shim:", err)
		return 1
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return 0 // another shim runs this attempt
	}
	if err := recordPID(lock); err != nil {
		fmt.Fprintln(os.Stderr, "process-shim:", err)
		return 1
	}
	claim, err := os.OpenFile(filepath.Join(dir, claimFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return 0 // another shim ran this attempt
	}
	claim.Close()
	exit := runContainer(dir, signals)
	exit.FinishedAt = time.Now().UnixNano()
	if exit.StartedAt == 0 {
		exit.StartedAt = exit.FinishedAt
	}
	if err := writeJSON(filepath.Join(dir, exitFile), exit); err != nil {
		fmt.Fprintln(os.Stderr, "process-shim:", err)
		return 1
	}
	return 0
}

// recordPID writes this process's ID into the lock file, so that a process that finds the lock held knows which process
// to signal.
func recordPID(lock *os.File) error {
	if err := lock.Truncate(0); err != nil {
		return err
	}
	_, err := lock.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0)
	return err
}

// runContainer starts the container, forwards signals, waits for its end and kills its remaining processes.
func runContainer(dir string, signals <-chan os.Signal) exitRecord {
	var spec containerSpec
	if err := readJSON(filepath.Join(dir, specFile), &spec); err != nil {
		return failedStart(err)
	}
	// This process becomes the parent of the container's orphans, so that it can find and kill them.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return failedStart(fmt.Errorf("become the subreaper of the container's processes: %w", err))
	}
	cmd, report, err := startInit(dir, spec)
	if err != nil {
		return failedStart(err)
	}
	defer report.Close()
	startedAt := time.Now().UnixNano()
	complaints := make(chan []byte, 1)
	go func() {
		complaint, _ := io.ReadAll(report) // ends when the process becomes the program, or ends
		complaints <- complaint
	}()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // its result is in cmd.ProcessState
	}()
	var complaint []byte
	for running := true; running; {
		select {
		case received := <-signals:
			forward(cmd.Process.Pid, received)
		case complaint = <-complaints:
			complaints = nil
			if len(complaint) == 0 {
				recordStart(dir, startRecord{PID: cmd.Process.Pid, StartedAt: startedAt})
			}
		case <-ended:
			running = false
		}
	}
	endDescendants()
	if complaints != nil {
		complaint = <-complaints
	}
	exit := exitOf(cmd.ProcessState)
	if len(complaint) > 0 {
		exit = failedStart(errors.New(string(complaint)))
	}
	exit.StartedAt = startedAt
	return exit
}

// recordStart records that the program itself now runs, with its mounts and as its user. If the record cannot be
// written, the kubelet shows the container as waiting, which does no other harm.
func recordStart(dir string, start startRecord) {
	if err := writeJSON(filepath.Join(dir, startFile), start); err != nil {
		fmt.Fprintln(os.Stderr, "process-shim:", err)
	}
}

// startInit starts the container's first process, which builds the mount namespace and becomes the program. On failure
// it writes the reason to the report pipe.
func startInit(dir string, spec containerSpec) (*exec.Cmd, *os.File, error) {
	report, reportWriter, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("make pipe: %w", err)
	}
	defer reportWriter.Close()
	output, err := os.OpenFile(spec.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		report.Close()
		return nil, nil, fmt.Errorf("open log: %w", err)
	}
	defer output.Close()
	cmd := exec.Command("/proc/self/exe", InitProgram, filepath.Join(dir, specFile)) //nolint:noctx // lives as long as the container
	cmd.Env = []string{}
	cmd.Stdout, cmd.Stderr = output, output
	cmd.ExtraFiles = []*os.File{reportWriter}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Setsid: true}
	if err := cmd.Start(); err != nil {
		report.Close()
		return nil, nil, fmt.Errorf("start container: %w", err)
	}
	return cmd, report, nil
}

// forward passes a signal to the container. A kill reaches all its processes at once.
func forward(pid int, received os.Signal) {
	if received == killSignal {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		return
	}
	if sig, ok := received.(syscall.Signal); ok {
		_ = syscall.Kill(pid, sig)
	}
}

// endDescendants kills the processes that the container left running, one generation after the other. When parents end,
// their children become children of this process.
func endDescendants() {
	for {
		children := childrenOf(os.Getpid())
		for _, pid := range children {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(-1, &status, 0, nil); errors.Is(err, syscall.ECHILD) {
			return
		}
	}
}

func childrenOf(pid int) []int {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil
	}
	var out []int
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for field := range strings.FieldsSeq(string(content)) {
			if child, err := strconv.Atoi(field); err == nil {
				out = append(out, child)
			}
		}
	}
	return out
}

func exitOf(state *os.ProcessState) exitRecord {
	status, ok := state.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return exitRecord{ExitCode: 128 + int(status.Signal()), Signal: int(status.Signal())}
	}
	return exitRecord{ExitCode: state.ExitCode()}
}

func failedStart(err error) exitRecord {
	return exitRecord{ExitCode: 128, Reason: reasonStartError, Message: err.Error()}
}

func readJSON(path string, into any) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	if err := json.Unmarshal(content, into); err != nil {
		return fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	return nil
}

// writeJSON writes a file atomically and durably, because these records decide whether a container runs again.
func writeJSON(path string, value any) error {
	content, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode %s: %w", filepath.Base(path), err)
	}
	file, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	defer file.Close()
	if _, err := file.Write(content); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	if err := file.Sync(); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}

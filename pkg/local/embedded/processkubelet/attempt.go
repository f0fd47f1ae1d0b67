package processkubelet

import (
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
	"time"

	"golang.org/x/sys/unix"
)

// attempt is one execution of one container, in its own directory. All its state is on disk.
type attempt struct {
	dir string
}

// prepared reports whether the specification is written. From then on, the attempt belongs to its shim.
func (a attempt) prepared() bool {
	_, err := os.Stat(filepath.Join(a.dir, specFile))
	return err == nil
}

// prepare creates the directory and writes the specification.
func (a attempt) prepare(spec containerSpec) error {
	if err := os.MkdirAll(spec.RootDir, 0o700); err != nil {
		return fmt.Errorf("make directory for container: %w", err)
	}
	termination := filepath.Join(a.dir, terminationFile)
	if err := os.WriteFile(termination, nil, 0o600); err != nil {
		return fmt.Errorf("make termination message: %w", err)
	}
	// Any user of the container may write the termination message.
	if err := os.Chmod(termination, 0o666); err != nil {
		return fmt.Errorf("make termination message: %w", err)
	}
	return writeJSON(filepath.Join(a.dir, specFile), spec)
}

// run runs the attempt to its end: it starts a shim or resumes the running one. It calls started once the container
// runs. If ctx ends first, run returns ctx's error and the container continues.
func (a attempt) run(ctx context.Context, started func(startRecord)) (exitRecord, error) {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	go a.watchStart(watching, started)
	for range 3 {
		if exit, ok := a.ended(); ok {
			return exit, nil
		}
		held, err := a.shimRuns()
		if err != nil {
			return exitRecord{}, err
		}
		if held {
			if err := a.waitForShim(ctx); err != nil {
				return exitRecord{}, err
			}
			continue
		}
		if exit, ok := a.ended(); ok {
			return exit, nil // the shim ended between the two checks
		}
		if _, err := os.Stat(filepath.Join(a.dir, claimFile)); err == nil {
			return a.lost(), nil
		}
		if err := a.startShim(ctx); err != nil {
			return exitRecord{}, err
		}
	}
	if exit, ok := a.ended(); ok {
		return exit, nil
	}
	log, _ := os.ReadFile(filepath.Join(a.dir, shimLogFile))
	return failedStart(fmt.Errorf("the shim ended without a result: %s", strings.TrimSpace(string(log)))), nil
}

func (a attempt) ended() (exitRecord, bool) {
	var exit exitRecord
	err := readJSON(filepath.Join(a.dir, exitFile), &exit)
	return exit, err == nil
}

// lost is the exit of a container whose shim left no record, because the machine was switched off or the shim was
// killed. The container is not run again, because it may have done its work already.
func (a attempt) lost() exitRecord {
	exit := exitRecord{
		ExitCode: 137, Reason: reasonLost, FinishedAt: time.Now().UnixNano(),
		Message: "The container ended without an exit code, for example because the machine was switched off",
	}
	var start startRecord
	if readJSON(filepath.Join(a.dir, startFile), &start) == nil {
		exit.StartedAt = start.StartedAt
		endLeftOver(start.PID, a.dir)
	}
	return exit
}

// endLeftOver kills a container that outlived its shim. The pid is not proof enough: the process must have mounted this
// attempt's termination message.
func endLeftOver(pid int, dir string) {
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	// Paths in the mount table start at the root of their file system. The end of the path, with the pod's UID,
	// identifies it.
	end := strings.Split(filepath.Join(dir, terminationFile), "/")
	end = end[max(0, len(end)-5):]
	if err == nil && strings.Contains(string(mounts), "/"+strings.Join(end, "/")+" ") {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// shimRuns reports whether a shim holds the lock.
func (a attempt) shimRuns() (bool, error) {
	lock, err := os.OpenFile(filepath.Join(a.dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return false, fmt.Errorf("open lock of container: %w", err)
	}
	defer lock.Close()
	err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("lock container: %w", err)
	}
	return false, nil
}

// startShim starts a shim in its own session and waits for its end.
func (a attempt) startShim(ctx context.Context) error {
	output, err := os.OpenFile(filepath.Join(a.dir, shimLogFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open log of shim: %w", err)
	}
	defer output.Close()
	cmd := exec.Command("/proc/self/exe", ShimProgram, a.dir) //nolint:noctx // it must outlive the kubelet
	cmd.Env = []string{}
	cmd.Stdout, cmd.Stderr = output, output
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start shim: %w", err)
	}
	return waitFor(ctx, func() { _ = cmd.Wait() }) // its result is the exit record
}

// waitForShim waits until the shim of an earlier kubelet releases the lock.
func (a attempt) waitForShim(ctx context.Context) error {
	return waitFor(ctx, func() {
		lock, err := os.OpenFile(filepath.Join(a.dir, lockFile), os.O_RDWR, 0o600)
		if err != nil {
			return
		}
		defer lock.Close()
		for errors.Is(unix.Flock(int(lock.Fd()), unix.LOCK_EX), unix.EINTR) {
		}
	})
}

// waitFor runs a blocking wait until it returns or the context ends. In the second case the wait continues in the
// background.
func waitFor(ctx context.Context, wait func()) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// watchStart calls started once the container runs.
func (a attempt) watchStart(ctx context.Context, started func(startRecord)) {
	ticker := time.NewTicker(25 * time.Millisecond)
	defer ticker.Stop()
	for {
		var start startRecord
		if readJSON(filepath.Join(a.dir, startFile), &start) == nil {
			if _, over := a.ended(); !over && ctx.Err() == nil {
				started(start)
			}
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// signal asks the shim to stop or kill the container. It does nothing if no shim runs.
func (a attempt) signal(sig syscall.Signal) {
	if held, err := a.shimRuns(); err != nil || !held {
		return
	}
	content, err := os.ReadFile(filepath.Join(a.dir, lockFile))
	if err != nil {
		return
	}
	if pid, err := strconv.Atoi(strings.TrimSpace(string(content))); err == nil && pid > 1 {
		_ = syscall.Kill(pid, sig) // the shim may end at this moment
	}
}

// terminationMessage returns the last 4096 bytes of the container's termination message. If a failed container wrote
// none and fallBackToLog is set, it returns the end of the log.
func (a attempt) terminationMessage(logFile string, exit exitRecord, fallBackToLog bool) string {
	const maxMessage, maxFallBack = 4096, 2048
	message, err := tail(filepath.Join(a.dir, terminationFile), maxMessage)
	if err == nil && message == "" && fallBackToLog && exit.ExitCode != 0 {
		message, err = tail(logFile, maxFallBack)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "the termination message is unreadable: " + err.Error()
	}
	return message
}

func tail(path string, size int64) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	from := max(0, info.Size()-size)
	buffer := make([]byte, info.Size()-from)
	n, err := file.ReadAt(buffer, from)
	if n == len(buffer) {
		err = nil
	}
	return strings.ToValidUTF8(string(buffer[:n]), "�"), err
}

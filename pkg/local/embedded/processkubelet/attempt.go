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

// attempt is one execution of one container, in a directory of its own. Everything that is known about it is on disk.
type attempt struct {
	dir string
}

// prepared tells whether the specification was written, which is the point from which the attempt belongs to its shim.
func (a attempt) prepared() bool {
	_, err := os.Stat(filepath.Join(a.dir, specFile))
	return err == nil
}

// prepare makes the directory and writes the specification.
func (a attempt) prepare(spec containerSpec) error {
	if err := os.MkdirAll(spec.RootDir, 0o700); err != nil {
		return fmt.Errorf("make directory for container: %w", err)
	}
	termination := filepath.Join(a.dir, terminationFile)
	if err := os.WriteFile(termination, nil, 0o600); err != nil {
		return fmt.Errorf("make termination message: %w", err)
	}
	// Any user of the container may write it.
	if err := os.Chmod(termination, 0o666); err != nil {
		return fmt.Errorf("make termination message: %w", err)
	}
	return writeJSON(filepath.Join(a.dir, specFile), spec)
}

// run brings the attempt to its end: it starts a shim, or takes up the one that runs already. started is called once
// the container runs. When ctx ends first, the error is ctx's and the container runs on.
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
			return exit, nil // it ended between the two looks
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

// lost is the end of a container whose shim is gone without a record: the machine was switched off, or somebody killed
// the shim. Running it again could do twice what it did once.
func (a attempt) lost() exitRecord {
	exit := exitRecord{
		ExitCode: 137, Reason: reasonLost, FinishedAt: time.Now().UnixNano(),
		Message: "The container ended without leaving its exit code, as when the machine is switched off",
	}
	var start startRecord
	if readJSON(filepath.Join(a.dir, startFile), &start) == nil {
		exit.StartedAt = start.StartedAt
		endLeftOver(start.PID, a.dir)
	}
	return exit
}

// endLeftOver kills a container that outlived its shim. The pid alone proves nothing: the process must have this
// attempt's termination message mounted.
func endLeftOver(pid int, dir string) {
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	// The mount table tells paths from the root of the file system they are on: the end of the path, with the pod's UID,
	// is what identifies it.
	end := strings.Split(filepath.Join(dir, terminationFile), "/")
	end = end[max(0, len(end)-5):]
	if err == nil && strings.Contains(string(mounts), "/"+strings.Join(end, "/")+" ") {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// shimRuns tells whether a shim holds the lock.
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

// startShim starts a shim in a session of its own and waits for its end.
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

// waitForShim waits until the shim of an earlier kubelet lets go of the lock.
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

// waitFor runs a blocking wait beside the context. When the context ends first the wait goes on in the background, for
// as long as this process lives.
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

// signal asks the shim to stop or kill the container; nothing happens when it does not run.
func (a attempt) signal(sig syscall.Signal) {
	if held, err := a.shimRuns(); err != nil || !held {
		return
	}
	content, err := os.ReadFile(filepath.Join(a.dir, lockFile))
	if err != nil {
		return
	}
	if pid, err := strconv.Atoi(strings.TrimSpace(string(content))); err == nil && pid > 1 {
		_ = syscall.Kill(pid, sig) // it may end in this moment
	}
}

// terminationMessage is what the container wrote for its user, the last 4096 bytes of it. When it wrote nothing, failed
// and asked for it, the end of its log stands in.
func (a attempt) terminationMessage(logFile string, exit exitRecord, fallBackToLog bool) string {
	const maxMessage, maxFallBack = 4096, 2048
	message, err := tail(filepath.Join(a.dir, terminationFile), maxMessage)
	if err == nil && message == "" && fallBackToLog && exit.ExitCode != 0 {
		message, err = tail(logFile, maxFallBack)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "the termination message cannot be read: " + err.Error()
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

package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"
)

const (
	// steadyAfter is the run time after which the next restart uses the shortest pause again.
	steadyAfter = time.Minute
	// rotateAt is the size in bytes at which a log is renamed before the child starts.
	rotateAt = 64 << 20
	// tailLines and tailBytes limit the part of a log that an error quotes.
	tailLines = 12
	tailBytes = 4096
)

// exit is how a child ended. Its error is never nil.
type exit struct {
	err error
	// fatal: a retry cannot help.
	fatal bool
}

// worker keeps one child running in one goroutine.
type worker struct {
	opts  Options
	child Child
	log   logrus.FieldLogger

	exits chan exit
	quit  chan struct{}
	done  chan struct{}
	// logFrom is the size in bytes of the log before this run. An error quotes only what follows.
	logFrom int64

	mu       sync.Mutex
	process  *os.Process
	quitting bool
}

func newWorker(opts Options, child Child) *worker {
	w := &worker{
		opts: opts, child: child, log: opts.Log.WithField("child", child.Name),
		exits: make(chan exit, earlyExits), quit: make(chan struct{}), done: make(chan struct{}),
	}
	if info, err := os.Stat(w.logFile()); err == nil && info.Size() <= rotateAt {
		w.logFrom = info.Size()
	}
	return w
}

// run restarts the child until end is called.
func (w *worker) run() {
	defer close(w.done)
	pause := w.opts.MinBackoff
	for {
		began := time.Now()
		end := w.once()
		if w.stopping() {
			return
		}
		if time.Since(began) >= steadyAfter {
			pause = w.opts.MinBackoff
		}
		w.log.WithError(end.err).WithField("pause", pause.String()).Warn("Child ended; starting it again")
		select {
		case w.exits <- end:
		default: // no caller waits for this child to become ready
		}
		select {
		case <-w.quit:
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, w.opts.MaxBackoff)
	}
}

// once starts the child and waits for its end. The error is never nil, because any exit of a child is unexpected, even
// with status 0.
func (w *worker) once() exit {
	output, err := w.openLog()
	if err != nil {
		return exit{err: err, fatal: true}
	}
	defer output.Close()
	cmd := exec.Command(w.child.Path, w.child.Args...) //nolint:noctx // stopped by end, in order and with a grace period
	cmd.Dir = w.child.Dir
	cmd.Env = append([]string{}, w.child.Env...)
	cmd.Env = append(cmd.Env, environmentMark(w.opts.RunDir))
	cmd.Stdout, cmd.Stderr = output, output
	// A separate process group: an interrupt typed at a terminal must reach only the parent, which stops the children
	// in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}

	if err := w.launch(cmd); err != nil {
		return exit{err: err, fatal: true}
	}
	waitErr := cmd.Wait()
	w.mu.Lock()
	w.process = nil
	w.mu.Unlock()
	removeRecord(w.opts.RunDir, w.child.Name)
	if waitErr == nil {
		return exit{err: errors.New("ended with exit status 0")}
	}
	return exit{err: fmt.Errorf("ended: %w", waitErr)}
}

// launch starts the command and records it, unless the worker is ending.
func (w *worker) launch(cmd *exec.Cmd) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.quitting {
		return errors.New("stopping")
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run program: %w", err)
	}
	w.process = cmd.Process
	if err := writeRecord(w.opts.RunDir, w.child.Name, cmd.Process.Pid); err != nil {
		// After a crash, the mark in its environment still finds the child.
		w.log.WithError(err).Warn("Cannot record a child; a later run finds it only by its environment")
	}
	return nil
}

// end stops the child: SIGTERM, the grace period, then SIGKILL for its whole process group.
func (w *worker) end() {
	w.mu.Lock()
	if !w.quitting {
		w.quitting = true
		close(w.quit)
	}
	process := w.process
	w.mu.Unlock()
	if process != nil {
		_ = process.Signal(syscall.SIGTERM) // it may end at this moment
	}
	select {
	case <-w.done:
		return
	case <-time.After(w.child.Grace):
	}
	w.log.Warn("Child did not stop in time; killing it")
	if process != nil {
		_ = syscall.Kill(-process.Pid, syscall.SIGKILL)
	}
	<-w.done
}

func (w *worker) stopping() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.quitting
}

func (w *worker) pid() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.process == nil {
		return 0
	}
	return w.process.Pid
}

func (w *worker) logFile() string { return filepath.Join(w.opts.LogDir, w.child.Name+".log") }

func (w *worker) openLog() (*os.File, error) {
	if info, err := os.Stat(w.logFile()); err == nil && info.Size() > rotateAt {
		if err := os.Rename(w.logFile(), w.logFile()+".1"); err != nil {
			return nil, fmt.Errorf("rotate log: %w", err)
		}
	}
	file, err := os.OpenFile(w.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	return file, nil
}

// logTail returns the last lines of the child's log for an error message, or "" if there are none.
func (w *worker) logTail() string {
	file, err := os.Open(w.logFile())
	if err != nil {
		return ""
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return ""
	}
	from := max(w.logFrom, info.Size()-tailBytes)
	buffer := make([]byte, max(0, info.Size()-from))
	n, _ := file.ReadAt(buffer, from)
	lines := strings.Split(strings.TrimSpace(string(buffer[:n])), "\n")
	lines = lines[max(0, len(lines)-tailLines):]
	if len(lines) == 1 && lines[0] == "" {
		return " (it wrote nothing to " + w.logFile() + ")"
	}
	return fmt.Sprintf("; the end of %s:\n%s", w.logFile(), strings.Join(lines, "\n"))
}

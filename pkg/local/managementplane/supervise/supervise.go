package supervise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/drover-io/drover/pkg/local/localfile"
)

// Defaults of Options and Child.
const (
	defaultMinBackoff = 250 * time.Millisecond
	defaultMaxBackoff = 30 * time.Second
	defaultGrace      = 10 * time.Second
	// readyPoll is the pause between two ready checks.
	readyPoll = 50 * time.Millisecond
	// earlyExits is the number of exits before the first ready check after which Start gives up.
	earlyExits = 3
)

// Child describes one process as data.
type Child struct {
	// Name is unique in its supervisor. The log file and the record have the same name.
	Name string
	// Path is the program. Args are its arguments without the program itself.
	Path string
	Args []string
	// Env is the child's whole environment. It inherits nothing.
	Env []string
	// Dir is the working directory. If it is empty, the child runs in the supervisor's.
	Dir string
	// Ready returns nil when the child serves. If it is nil, the child is ready as soon as it runs.
	Ready func(ctx context.Context) error
	// Grace is the time between SIGTERM and SIGKILL. Zero means 10 s.
	Grace time.Duration
}

// Options configure a Supervisor.
type Options struct {
	// RunDir contains the lock and one record per running child.
	RunDir string
	// LogDir contains <name>.log, the child's output.
	LogDir string
	// MinBackoff and MaxBackoff limit the pause before a restart. Zero means 250 ms and 30 s.
	MinBackoff, MaxBackoff time.Duration
	// Log receives starts, exits and stops.
	Log logrus.FieldLogger
}

// Supervisor runs children. Open creates it, and Close ends it.
type Supervisor struct {
	opts Options
	lock *os.File

	mu      sync.Mutex
	workers []*worker
}

// Open takes the lock of opts.RunDir and ends the processes of an earlier, killed run. If a live process holds the
// lock, the error names it.
func Open(ctx context.Context, opts Options) (*Supervisor, error) {
	opts.MinBackoff = cmp.Or(opts.MinBackoff, defaultMinBackoff)
	opts.MaxBackoff = cmp.Or(opts.MaxBackoff, defaultMaxBackoff)
	if opts.Log == nil {
		opts.Log = logrus.StandardLogger()
	}
	runDir, err := filepath.Abs(opts.RunDir)
	if err != nil {
		return nil, fmt.Errorf("find directory %s: %w", opts.RunDir, err)
	}
	opts.RunDir = runDir
	for _, dir := range []string{opts.RunDir, opts.LogDir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make directory: %w", err)
		}
	}
	lock, err := localfile.Lock(filepath.Join(opts.RunDir, "lock"))
	if err != nil {
		return nil, err
	}
	if err := endStale(ctx, opts); err != nil {
		lock.Close()
		return nil, fmt.Errorf("end processes of an earlier run: %w", err)
	}
	return &Supervisor{opts: opts, lock: lock}, nil
}

// Start starts a child and returns when it is ready. If the child cannot start, ends repeatedly or is not ready before
// ctx ends, Start stops it. The error names the child and quotes the end of its log.
func (s *Supervisor) Start(ctx context.Context, child Child) error {
	child.Grace = cmp.Or(child.Grace, defaultGrace)
	w := newWorker(s.opts, child)
	s.mu.Lock()
	if slices.ContainsFunc(s.workers, func(other *worker) bool { return other.child.Name == child.Name }) {
		s.mu.Unlock()
		return fmt.Errorf("start %s: it is running already", child.Name)
	}
	s.workers = append(s.workers, w)
	s.mu.Unlock()

	go w.run()
	if err := s.waitReady(ctx, w); err != nil {
		w.end()
		s.forget(w)
		return fmt.Errorf("start %s: %w%s", child.Name, err, w.logTail())
	}
	w.log.WithField("pid", w.pid()).Info("Started")
	return nil
}

// waitReady polls the ready check until it passes, the context ends or the child has ended too often.
func (s *Supervisor) waitReady(ctx context.Context, w *worker) error {
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	var lastErr error
	exits := 0
	for {
		select {
		case exit := <-w.exits:
			exits++
			if exit.fatal || exits >= earlyExits {
				return exit.err
			}
			lastErr = exit.err
		case <-ctx.Done():
			if lastErr == nil {
				lastErr = errors.New("its readiness check never ran")
			}
			return fmt.Errorf("not ready in time: %w", lastErr)
		case <-ticker.C:
			if w.pid() == 0 {
				continue
			}
			if w.child.Ready == nil {
				return nil
			}
			if err := w.child.Ready(ctx); err == nil {
				return nil
			} else if ctx.Err() == nil {
				lastErr = err
			}
		}
	}
}

// Close stops the children in reverse order and releases the lock. It returns when all have ended.
func (s *Supervisor) Close() {
	s.StopAll()
	s.lock.Close()
}

// StopAll stops the children in reverse order. The caller may start others afterwards.
func (s *Supervisor) StopAll() {
	s.mu.Lock()
	workers := slices.Clone(s.workers)
	s.workers = nil
	s.mu.Unlock()
	for _, w := range slices.Backward(workers) {
		w.end()
	}
}

// PID returns the process ID of a child, or 0 if it does not run.
func (s *Supervisor) PID(name string) int {
	if w := s.find(name); w != nil {
		return w.pid()
	}
	return 0
}

func (s *Supervisor) find(name string) *worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.workers {
		if w.child.Name == name {
			return w
		}
	}
	return nil
}

func (s *Supervisor) forget(gone *worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.workers = slices.DeleteFunc(s.workers, func(w *worker) bool { return w == gone })
}

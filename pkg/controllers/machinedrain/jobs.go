package machinedrain

import (
	"context"
	"sync"
	"time"
)

const (
	// maxJobs is how many nodes are drained at a time. Most of that time is waiting for pods to end.
	maxJobs = 50
	// firstRetry and lastRetry are the shortest and the longest wait before a failed task is retried.
	firstRetry = 15 * time.Second
	lastRetry  = 5 * time.Minute
)

// job is a task at a node for one request.
type job struct {
	task     task
	request  string
	cancel   context.CancelFunc
	done     bool
	err      error
	attempts int
	retryAt  time.Time
}

// jobs holds the tasks that run outside the handler, one per plan Secret.
type jobs struct {
	// jobs outlive the handler's call, and end with the controllers
	ctx   context.Context
	now   func() time.Time
	slots chan struct{}

	mu    sync.Mutex
	byKey map[string]*job
}

func newJobs(ctx context.Context, now func() time.Time) *jobs {
	return &jobs{ctx: ctx, now: now, slots: make(chan struct{}, maxJobs), byKey: map[string]*job{}}
}

// state returns the last task for a request, whether it succeeded, and its error.
func (j *jobs) state(key, request string) (last task, finished bool, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	known := j.byKey[key]
	if known == nil || known.request != request {
		return taskNone, false, nil
	}
	return known.task, known.done && known.err == nil, known.err
}

// start starts a task in the background and calls wake at its end. It does nothing if the task already runs. If the
// task failed recently, start returns when to retry. It first cancels another task of the same node.
func (j *jobs) start(key string, next task, request string, run func(context.Context) error,
	wake func()) (again time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	attempts := 0
	if known := j.byKey[key]; known != nil {
		same := known.task == next && known.request == request
		switch {
		case same && !known.done:
			return 0
		case same && known.err != nil && j.now().Before(known.retryAt):
			return known.retryAt.Sub(j.now())
		case !known.done:
			known.cancel()
			return time.Second // it ends at once and wakes the handler
		case same:
			attempts = known.attempts
		}
	}
	ctx, cancel := context.WithCancel(j.ctx)
	begun := &job{task: next, request: request, cancel: cancel, attempts: attempts + 1}
	j.byKey[key] = begun
	go func() {
		defer wake()
		defer cancel()
		err := j.inSlot(ctx, next, run)
		j.mu.Lock()
		defer j.mu.Unlock()
		begun.done, begun.err = true, err
		begun.retryAt = j.now().Add(min(lastRetry, firstRetry<<min(begun.attempts-1, 10)))
	}()
	return 0
}

// inSlot runs a task, and makes evictions wait for a slot. Short tasks need no slot, because evictions of other
// clusters may take long.
func (j *jobs) inSlot(ctx context.Context, what task, run func(context.Context) error) error {
	if what != taskEvict {
		return run(ctx)
	}
	select {
	case j.slots <- struct{}{}:
		defer func() { <-j.slots }()
		return run(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// forget cancels the task of a plan Secret and drops its state.
func (j *jobs) forget(key string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if known := j.byKey[key]; known != nil {
		known.cancel()
		delete(j.byKey, key)
	}
}

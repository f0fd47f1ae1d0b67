package machinedrain

import (
	"context"
	"sync"
	"time"
)

const (
	// maxJobs is how many nodes are emptied at a time. Most of that is waiting for pods to end.
	maxJobs = 50
	// firstRetry and lastRetry bound the time between two attempts at a task that fails.
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

// jobs run beside the handler, one per plan secret.
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

// state is what was last done for a request: the task, if it has come to its end, and why it failed.
func (j *jobs) state(key, request string) (last task, finished bool, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	known := j.byKey[key]
	if known == nil || known.request != request {
		return taskNone, false, nil
	}
	return known.task, known.done && known.err == nil, known.err
}

// start begins a task, unless it is being done or failed a moment ago; then it says when to look again. Another task for the same node
// is ended first. wake is called at the end.
func (j *jobs) start(key string, next task, request string, run func(context.Context) error, wake func()) (again time.Duration) {
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
			return time.Second // it ends at once, and wakes us
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

// inSlot waits for its turn. What takes a moment does not wait for evictions: those of other clusters may take all their time.
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

// forget ends what is being done for a plan secret, and drops what is known about it.
func (j *jobs) forget(key string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if known := j.byKey[key]; known != nil {
		known.cancel()
		delete(j.byKey, key)
	}
}

package managedchart

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/pkg/decide/fleet"
	"github.com/drover-io/drover/pkg/reach/chartrepo"
)

const (
	// atOnce is the number of downloads that run at the same time, and perNamespace those of one namespace.
	atOnce       = 8
	perNamespace = 2
	// firstRetry and lastRetry are the delays after the first failure and after many.
	firstRetry = time.Minute
	lastRetry  = 30 * time.Minute
	// checkEvery is how often a range of versions is compared with the repository.
	checkEvery = time.Hour
)

// downloads runs the downloads of ManagedCharts in the background. Each ManagedChart has at most one.
type downloads struct {
	ctx   context.Context
	fetch Fetch
	now   func() time.Time
	wake  func(types.NamespacedName)

	slots *semaphore.Weighted

	mu    sync.Mutex
	of    map[types.NamespacedName]*download
	turns map[string]*semaphore.Weighted
}

// download is the latest download of a ManagedChart.
type download struct {
	request chartrepo.Request
	stop    context.CancelFunc

	running  bool
	found    *files
	err      error
	failures int
	// at is when the download ended.
	at time.Time
}

// result is what is known about a download.
type result struct {
	// isRunning means that the end of the download wakes the ManagedChart.
	isRunning bool
	// found and err are the end of the previous download. Both are nil before.
	found *files
	err   error
	// after is the time until the next download.
	after time.Duration
}

func newDownloads(ctx context.Context, fetch Fetch, now func() time.Time,
	wake func(types.NamespacedName)) *downloads {
	return &downloads{ctx: ctx, fetch: fetch, now: now, wake: wake, slots: semaphore.NewWeighted(atOnce),
		of: map[types.NamespacedName]*download{}, turns: map[string]*semaphore.Weighted{}}
}

// get returns the result of a request, and starts the download when it is due. known is the version whose files the
// caller has, "" without one.
func (d *downloads) get(key types.NamespacedName, request chartrepo.Request, known string) result {
	d.mu.Lock()
	defer d.mu.Unlock()
	current := d.of[key]
	if current != nil && current.request != request {
		current.stop()
		current = nil
	}
	if current == nil {
		current = &download{request: request}
		d.start(key, current, known)
	}
	if !current.running {
		if after := d.due(current, known); after > 0 {
			return result{found: current.found, err: current.err, after: after}
		}
		d.start(key, current, known)
	}
	return result{isRunning: true, found: current.found, err: current.err}
}

// due returns the time until the next download. The caller holds the lock.
func (d *downloads) due(current *download, known string) time.Duration {
	switch {
	case current.err != nil:
		delay := lastRetry
		if shift := current.failures - 1; shift < 5 {
			delay = firstRetry << shift
		}
		return min(delay, lastRetry) - d.now().Sub(current.at)
	case known == "" && current.found.resources == nil:
		return 0 // the Bundle with the files is gone
	case !chartrepo.IsFloating(current.request.Version):
		return checkEvery // the version does not change, so it is never due
	}
	return checkEvery - d.now().Sub(current.at)
}

// start starts a download. The caller holds the lock.
func (d *downloads) start(key types.NamespacedName, current *download, known string) {
	ctx, stop := context.WithCancel(d.ctx)
	current.stop, current.running = stop, true
	d.of[key] = current
	turns := d.turns[key.Namespace]
	if turns == nil {
		turns = semaphore.NewWeighted(perNamespace)
		d.turns[key.Namespace] = turns
	}
	go func() {
		defer stop()
		found, err := d.wait(ctx, turns, current.request, known)
		if ctx.Err() == nil {
			d.end(key, current, found, err)
		}
	}()
}

// wait downloads when it is the namespace's turn. Only the compressed files are kept: a chart can be large when
// unpacked, and there is no limit for the number of ManagedCharts.
func (d *downloads) wait(ctx context.Context, turns *semaphore.Weighted, request chartrepo.Request,
	known string) (*files, error) {
	for _, slots := range []*semaphore.Weighted{turns, d.slots} {
		if err := slots.Acquire(ctx, 1); err != nil {
			return nil, err
		}
		defer slots.Release(1)
	}
	chart, err := d.fetch(ctx, request, known)
	if err != nil || chart.Files == nil {
		return versionOf(chart), err
	}
	resources, err := fleet.Resources(chart.Files)
	if err != nil {
		return nil, &chartrepo.Error{Kind: chartrepo.Invalid, Message: "spec.chart: " + err.Error()}
	}
	return &files{resources: resources, version: chart.Version}, nil
}

func versionOf(chart *chartrepo.Chart) *files {
	if chart == nil {
		return nil
	}
	return &files{version: chart.Version}
}

// end records the end of a download and wakes the ManagedChart.
func (d *downloads) end(key types.NamespacedName, current *download, found *files, err error) {
	d.mu.Lock()
	current.running, current.err, current.at = false, err, d.now()
	if err != nil {
		current.failures++
	} else {
		current.failures, current.found = 0, found
	}
	d.mu.Unlock()
	d.wake(key)
}

// release drops the files, which the Bundle has now.
func (d *downloads) release(key types.NamespacedName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if current := d.of[key]; current != nil && current.found != nil {
		current.found = &files{version: current.found.version}
	}
}

// forget ends the download of a ManagedChart and drops its result.
func (d *downloads) forget(key types.NamespacedName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if current := d.of[key]; current != nil {
		current.stop()
		delete(d.of, key)
	}
}

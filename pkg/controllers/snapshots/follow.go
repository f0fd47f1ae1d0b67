package snapshots

import (
	"context"
	"hash/fnv"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/pkg/reach/proxy"
)

const (
	// every is the interval between polls of a cluster. After an operation or a change it starts at soon and doubles up
	// to every. For a cluster that does not answer, it doubles up to seldom.
	every  = time.Minute
	soon   = 2 * time.Second
	seldom = 5 * time.Minute
	// atOnce limits concurrent polls of clusters that answered last time, and failing those of all others.
	atOnce  = 8
	failing = 2
)

// followers poll clusters, each in a goroutine of its own.
type followers struct {
	// polls outlive the calls that start them
	ctx context.Context
	// look reports whether it changed anything. If so, the next poll comes soon.
	look func(ctx context.Context, cluster types.NamespacedName, v *view) (changed bool, err error)
	log  logrus.FieldLogger
	now  func() time.Time

	mu sync.Mutex
	of map[types.NamespacedName]*follower
}

type follower struct {
	// mark identifies the state of the cluster's operations.
	mark string
	kick chan struct{}
	stop context.CancelFunc
}

// follow starts to poll a cluster. If its mark has changed, it polls at once.
func (f *followers) follow(cluster types.NamespacedName, mark string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.of[cluster]; known != nil {
		if known.mark != mark {
			known.mark = mark
			select {
			case known.kick <- struct{}{}:
			default: // a poll is already requested
			}
		}
		return
	}
	ctx, stop := context.WithCancel(f.ctx)
	begun := &follower{mark: mark, kick: make(chan struct{}, 1), stop: stop}
	f.of[cluster] = begun
	go f.run(ctx, cluster, begun.kick)
}

// leave stops polling a cluster.
func (f *followers) leave(cluster types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.of[cluster]; known != nil {
		known.stop()
		delete(f.of, cluster)
	}
}

// run polls one cluster. Its first delay depends on the cluster's name, so that a new process does not poll all
// clusters at once.
func (f *followers) run(ctx context.Context, cluster types.NamespacedName, kick <-chan struct{}) {
	log := f.log.WithField("controller", handlerName).WithField("namespace", cluster.Namespace).WithField("cluster",
		cluster.Name)
	v := newView()
	told, hurried := false, time.Time{}
	for wait := offset(cluster); ; {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-kick:
			timer.Stop()
			wait = 0
		case <-timer.C:
		}
		changed, err := proxy.Guarded(func() (bool, error) { return f.look(ctx, cluster, v) })
		limit := every
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			told = false
		default:
			limit = seldom
			if !told && !proxy.IsAway(err) {
				told = true
				log.WithField(logrus.ErrorKey, proxy.Shortened(err)).
					Info("Cannot update the ETCDSnapshots of the cluster")
			}
		}
		// This limits how often a cluster with constant changes is polled.
		if now := f.now(); changed && now.Sub(hurried) >= every {
			wait, hurried = 0, now
		}
		wait = min(max(wait*2, soon), limit)
	}
}

func offset(cluster types.NamespacedName) time.Duration {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(cluster.String()))
	return time.Duration(hash.Sum64() % uint64(every))
}

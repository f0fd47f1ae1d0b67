package snapshots

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/pkg/reach/proxy"
	"github.com/drover-io/drover/pkg/reach/tunnel"
)

const (
	// every is between two looks at a cluster, soon between the first two after an operation or a change, from where the time doubles. A cluster
	// that does not answer is asked again after seldom at the most.
	every  = time.Minute
	soon   = 2 * time.Second
	seldom = 5 * time.Minute
	// atOnce is how many clusters are asked at the same time that have answered the last time, and failing how many of the others.
	atOnce  = 8
	failing = 2
)

// followers look at clusters again and again, each in a goroutine of its own.
type followers struct {
	// looks outlive the calls that start them
	ctx context.Context
	// look tells whether something has changed, after which it is looked again soon.
	look func(ctx context.Context, cluster types.NamespacedName, v *view) (changed bool, err error)
	log  logrus.FieldLogger
	now  func() time.Time

	mu sync.Mutex
	of map[types.NamespacedName]*follower
}

type follower struct {
	// mark is how far operations of the cluster were.
	mark string
	kick chan struct{}
	stop context.CancelFunc
}

// follow begins to look at a cluster, and hurries when its mark has changed.
func (f *followers) follow(cluster types.NamespacedName, mark string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.of[cluster]; known != nil {
		if known.mark != mark {
			known.mark = mark
			select {
			case known.kick <- struct{}{}:
			default: // it hurries already
			}
		}
		return
	}
	ctx, stop := context.WithCancel(f.ctx)
	begun := &follower{mark: mark, kick: make(chan struct{}, 1), stop: stop}
	f.of[cluster] = begun
	go f.run(ctx, cluster, begun.kick)
}

// leave ends the looks at a cluster.
func (f *followers) leave(cluster types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.of[cluster]; known != nil {
		known.stop()
		delete(f.of, cluster)
	}
}

// run begins at a moment that depends on the cluster's name, so that a process with many clusters does not ask them all at once.
func (f *followers) run(ctx context.Context, cluster types.NamespacedName, kick <-chan struct{}) {
	log := f.log.WithField("controller", handlerName).WithField("namespace", cluster.Namespace).WithField("cluster", cluster.Name)
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
		changed, err := f.guarded(ctx, cluster, v)
		limit := every
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			told = false
		default:
			limit = seldom
			if !told && !isAway(err) {
				told = true
				log.WithField(logrus.ErrorKey, brief(err)).Info("The snapshots of the cluster cannot be brought up to date now")
			}
		}
		if now := f.now(); changed && now.Sub(hurried) >= every { // a cluster that has news all the time gets no more than its part
			wait, hurried = 0, now
		}
		wait = min(max(wait*2, soon), limit)
	}
}

// brief is an error, of which a cluster may have written most.
func brief(err error) string {
	const limit = 2048
	if text := err.Error(); len(text) > limit {
		return strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return err.Error()
}

func offset(cluster types.NamespacedName) time.Duration {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(cluster.String()))
	return time.Duration(hash.Sum64() % uint64(every))
}

// isAway reports that there is no way to a cluster, which others tell.
func isAway(err error) bool {
	return errors.Is(err, proxy.ErrNotAvailable) || errors.Is(err, tunnel.ErrNotConnected)
}

// guarded is a look of which a panic is an error, as it is in handlers.
func (f *followers) guarded(ctx context.Context, cluster types.NamespacedName, v *view) (changed bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return f.look(ctx, cluster, v)
}

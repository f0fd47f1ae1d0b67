package snapshots

import (
	"context"
	"errors"
	"hash/fnv"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/pkg/proxy"
)

const (
	// every is between two looks at a cluster, soon between the first two after an operation or a change, from where the time doubles. A cluster
	// that does not answer is asked again after seldom at the most.
	every  = time.Minute
	soon   = 2 * time.Second
	seldom = 5 * time.Minute
	// atOnce is how many clusters are asked at the same time.
	atOnce = 8
)

// followers look at clusters again and again, each in a goroutine of its own.
type followers struct {
	//nolint:containedctx // looks outlive the calls that start them
	ctx context.Context
	// look tells whether something has changed, after which it is looked again soon.
	look  func(ctx context.Context, cluster types.NamespacedName, last *settled) (changed bool, err error)
	log   logrus.FieldLogger
	slots chan struct{}

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
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(cluster.String()))
	wait := time.Duration(hash.Sum32()) % every
	log := f.log.WithField("controller", handlerName).WithField("namespace", cluster.Namespace).WithField("cluster", cluster.Name)
	var last settled
	silent := false
	for {
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
		changed, err := f.oneLook(ctx, cluster, &last)
		switch {
		case ctx.Err() != nil:
			return
		case changed:
			wait = 0
		case err != nil && !silent && !errors.Is(err, proxy.ErrNotAvailable):
			log.WithError(err).Info("The snapshots of the cluster cannot be listed now")
		}
		silent = err != nil
		limit := every
		if err != nil {
			limit = seldom
		}
		wait = min(max(wait*2, soon), limit)
	}
}

func (f *followers) oneLook(ctx context.Context, cluster types.NamespacedName, last *settled) (bool, error) {
	select {
	case f.slots <- struct{}{}:
		defer func() { <-f.slots }()
		return f.look(ctx, cluster, last)
	case <-ctx.Done():
		return false, nil
	}
}

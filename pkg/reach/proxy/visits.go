package proxy

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/drover-io/drover/pkg/reach/tunnel"
)

const (
	// visitors is the number of visits at the same time. At most failingVisitors of them are to clusters whose last
	// visit failed, so that clusters that answer slowly delay no others.
	visitors, failingVisitors = 6, 2
	// visitTimeout limits one visit, whatever the cluster does.
	visitTimeout = 30 * time.Second
	// visitPace is the time from a wake-up to the visit. Further wake-ups in that time cause no further visit.
	visitPace = time.Second
	// visitAgainFirst and visitAgainLast limit the back-off of failed visits.
	visitAgainFirst, visitAgainLast = 2 * time.Second, 5 * time.Minute
)

// Visit works in a cluster. It returns the time after which the next visit is due without a wake-up, or 0 for never.
type Visit func(ctx context.Context, cluster types.NamespacedName) (again time.Duration, err error)

// Visits work in clusters in the background, with one visit at a time for each cluster. A failed visit is repeated. A
// visit that finds no connection waits: its caller calls Connected when there is one.
type Visits struct {
	// visits outlive the calls that queue them
	ctx     context.Context
	visit   Visit
	log     logrus.FieldLogger
	failed  string
	queue   workqueue.TypedRateLimitingInterface[types.NamespacedName]
	failing chan struct{}
}

// NewVisits starts the workers, which end with ctx. failed is the message that is logged for the first of several
// failures of a cluster.
func NewVisits(ctx context.Context, visit Visit, log logrus.FieldLogger, failed string) *Visits {
	v := &Visits{ctx: ctx, visit: visit, log: log, failed: failed, failing: make(chan struct{}, failingVisitors),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](visitAgainFirst, visitAgainLast))}
	context.AfterFunc(ctx, v.queue.ShutDown)
	for range visitors {
		go v.work() //nolint:contextcheck // visits have the context of the workers
	}
	return v
}

// Wake queues a visit. The back-off of a failing cluster goes on.
func (v *Visits) Wake(cluster types.NamespacedName) {
	if v.queue.NumRequeues(cluster) == 0 {
		v.queue.AddAfter(cluster, visitPace)
	}
}

// Connected queues a visit to a cluster that has a new connection, and ends its back-off.
func (v *Visits) Connected(cluster types.NamespacedName) {
	v.queue.Forget(cluster)
	v.queue.AddAfter(cluster, visitPace)
}

func (v *Visits) work() {
	for {
		cluster, done := v.queue.Get()
		if done {
			return
		}
		v.one(cluster)
		v.queue.Done(cluster)
	}
}

func (v *Visits) one(cluster types.NamespacedName) {
	first := v.queue.NumRequeues(cluster) == 0
	if !first {
		select {
		case v.failing <- struct{}{}:
			defer func() { <-v.failing }()
		default:
			v.queue.AddAfter(cluster, visitAgainFirst)
			return
		}
	}
	ctx, cancel := context.WithTimeout(v.ctx, visitTimeout)
	defer cancel()
	again, err := Guarded(func() (time.Duration, error) { return v.visit(ctx, cluster) })
	switch {
	case v.ctx.Err() != nil:
	case IsAway(err):
		v.queue.Forget(cluster)
		v.queue.AddAfter(cluster, visitAgainLast) // another session of the cluster may be open
	case err == nil:
		v.queue.Forget(cluster)
		if again > 0 {
			v.queue.AddAfter(cluster, again)
		}
	default:
		if first {
			v.log.WithField("namespace", cluster.Namespace).WithField("cluster", cluster.Name).
				WithField(logrus.ErrorKey, Shortened(err)).Warn(v.failed)
		}
		v.queue.AddRateLimited(cluster)
	}
}

// Guarded does work in a cluster, and turns a panic into an error, as handlers do.
func Guarded[T any](work func() (T, error)) (result T, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return work()
}

// IsAway reports that a cluster has no connection. Conditions already show that.
func IsAway(err error) bool {
	return errors.Is(err, ErrNotAvailable) || errors.Is(err, tunnel.ErrNotConnected)
}

// Shortened limits the text of an error, because the cluster may have written most of it.
func Shortened(err error) string {
	const limit = 2048
	if text := err.Error(); len(text) > limit {
		return strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return err.Error()
}

package inspect

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/redact"
	"github.com/drover-io/drover/pkg/operate/status"
)

// A user looks at the rows, so the pause between attempts does not grow.
const (
	retryInterval = 2 * time.Second
	retryJitter   = 0.5
)

// Follower keeps the rows of Statuses up to date.
type Follower struct {
	of       *Statuses
	mu       sync.Mutex
	clusters rowStore[status.Cluster]
	machines rowStore[status.Machine]
	// clusterErr and machineErr are the errors of the last requests, nil after a success.
	clusterErr, machineErr error
	// seen is true once there was a cluster.
	seen    bool
	changed chan struct{}
}

// View is what a Follower knows at one moment.
type View struct {
	Rows
	// Listed is true after the first complete read.
	Listed bool
	// Gone is true if the named cluster existed and does not exist any more.
	Gone bool
	// Problem says why the rows may be old. The Follower tries again.
	Problem string
}

// Follow follows the rows until the context ends. It continues after an interruption of the connection.
func (s *Statuses) Follow(ctx context.Context) *Follower {
	f := &Follower{of: s, changed: make(chan struct{}, 1)}
	f.clusters = rowStore[status.Cluster]{mu: &f.mu, changed: f.change, rowOf: func(object any) (status.Cluster, bool) {
		cluster, ok := object.(*provv1.Cluster)
		if !ok {
			return status.Cluster{}, false
		}
		return status.OfCluster(cluster), true
	}}
	f.machines = rowStore[status.Machine]{mu: &f.mu, changed: f.change, rowOf: func(object any) (status.Machine, bool) {
		machine, ok := object.(*clusterv1.Machine)
		if !ok {
			return status.Machine{}, false
		}
		return status.OfMachine(machine), true
	}}
	// The log would change the terminal. View reports problems instead.
	ctx = klog.NewContext(ctx, logr.Discard())
	silent := logr.Discard()
	for _, kind := range []struct {
		client *resourceClient
		object runtime.Object
		store  cache.ReflectorStore
		err    *error
	}{
		{&s.clusters, &provv1.Cluster{}, &f.clusters, &f.clusterErr},
		{&s.machines, &clusterv1.Machine{}, &f.machines, &f.machineErr},
	} {
		source := &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				list, err := kind.client.list(ctx, o)
				f.note(ctx, kind.err, err)
				return list, err
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				events, err := kind.client.watch(ctx, o)
				f.note(ctx, kind.err, err)
				return events, err
			},
		}
		reflector := cache.NewReflectorWithOptions(source, kind.object, kind.store,
			cache.ReflectorOptions{Name: kind.client.name, Logger: &silent, Backoff: &wait.Backoff{
				Duration: retryInterval, Factor: 1, Jitter: retryJitter, Steps: math.MaxInt32}})
		go wait.JitterUntilWithContext(ctx, func(ctx context.Context) {
			_ = reflector.ListAndWatchWithContext(ctx) // note has the error of each request
		}, retryInterval, retryJitter, true)
	}
	return f
}

// note remembers the result of a request. A version that is too old only causes a new list.
func (f *Follower) note(ctx context.Context, into *error, err error) {
	if ctx.Err() != nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return
	}
	f.mu.Lock()
	differs := (*into == nil) != (err == nil)
	*into = err
	f.mu.Unlock()
	if differs {
		f.change()
	}
}

func (f *Follower) change() {
	select {
	case f.changed <- struct{}{}:
	default: // a value waits already
	}
}

// Changed gets a value after changes.
func (f *Follower) Changed() <-chan struct{} { return f.changed }

// isRefusal reports whether the API server will give the same answer to the next request.
func isRefusal(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) }

// View returns the rows. An error means that there is nothing to follow.
func (f *Follower) View() (View, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case isRefusal(f.clusterErr):
		return View{}, f.of.unread(f.clusterErr)
	case f.clusters.listed && f.of.opts.Name != "" && len(f.clusters.rows) == 0 && !f.seen:
		return View{}, f.of.absent()
	}
	var v View
	v.Clusters = slices.Collect(maps.Values(f.clusters.rows))
	v.Machines = slices.Collect(maps.Values(f.machines.rows))
	problem := f.clusterErr
	if isRefusal(f.machineErr) {
		v.Machines, v.MachinesUnread = nil, machinesUnread(f.machineErr)
	} else if problem == nil {
		problem = f.machineErr
	}
	if problem != nil && !errors.Is(problem, context.Canceled) {
		v.Problem = "cannot read, and tries again: " + redact.WithoutURL(problem).Error()
	}
	f.finish(&v)
	return v, nil
}

// finish says whether the rows are complete, and whether the cluster is gone. The lock is held.
func (f *Follower) finish(v *View) {
	v.Listed = f.clusters.listed && (f.machines.listed || v.MachinesUnread != "")
	f.seen = f.seen || len(v.Clusters) > 0
	v.Gone = f.of.opts.Name != "" && f.seen && len(v.Clusters) == 0
}

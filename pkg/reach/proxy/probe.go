package proxy

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Delays between two attempts to reach a cluster.
const (
	firstRetry = 250 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// Prober checks whether clusters answer, without blocking the caller. It tries each requested cluster in the background
// until it answers, and then wakes it once.
type Prober struct {
	// attempts outlive the calls that start them
	ctx        context.Context
	downstream Downstream
	wake       func(namespace, name string)

	mu    sync.Mutex
	tried map[types.NamespacedName]*attempt
}

type attempt struct {
	version  string
	answered bool
	stop     context.CancelFunc
}

// NewProber returns a Prober whose attempts end with ctx. It calls wake from another goroutine when a cluster answers
// for the first time.
func NewProber(ctx context.Context, downstream Downstream, wake func(namespace, name string)) *Prober {
	return &Prober{ctx: ctx, downstream: downstream, wake: wake, tried: map[types.NamespacedName]*attempt{}}
}

// Answered reports whether the API server of a cluster has answered with the current kubeconfig. If not, attempts
// continue in the background.
func (p *Prober) Answered(cluster types.NamespacedName) bool {
	version, err := p.downstream.Version(cluster)
	if err != nil || version == "" {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if current, ok := p.tried[cluster]; ok {
		if current.version == version {
			return current.answered
		}
		current.stop()
	}
	ctx, stop := context.WithCancel(p.ctx)
	started := &attempt{version: version, stop: stop}
	p.tried[cluster] = started
	go p.try(ctx, cluster, started)
	return false
}

// Forget ends the attempts for a deleted cluster and drops its cached data.
func (p *Prober) Forget(cluster types.NamespacedName) {
	p.downstream.Forget(cluster)
	p.mu.Lock()
	defer p.mu.Unlock()
	if current, ok := p.tried[cluster]; ok {
		current.stop()
		delete(p.tried, cluster)
	}
}

func (p *Prober) try(ctx context.Context, cluster types.NamespacedName, this *attempt) {
	defer this.stop()
	for delay := firstRetry; ; delay = min(delay*2, lastRetry) {
		if p.ask(ctx, cluster) {
			p.mu.Lock()
			this.answered = true
			p.mu.Unlock()
			p.wake(cluster.Namespace, cluster.Name)
			return
		}
		timer := time.NewTimer(delay)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// ask makes one attempt. Any answer that accepts the credential counts.
func (p *Prober) ask(ctx context.Context, cluster types.NamespacedName) bool {
	client, err := p.downstream.Client(ctx, cluster)
	if err != nil {
		return false
	}
	return client.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Error() == nil
}

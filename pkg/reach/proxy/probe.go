package proxy

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Delays between two attempts to reach a cluster.
const (
	firstRetry = 250 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// Downstream is what a Prober needs of Clients.
type Downstream interface {
	Client(ctx context.Context, cluster types.NamespacedName) (kubernetes.Interface, error)
	Version(cluster types.NamespacedName) (string, error)
	Forget(cluster types.NamespacedName)
}

// Prober finds out whether clusters answer, without holding up the caller: each
// cluster that was asked about and has not answered is tried in the background
// until it does, and then woken once.
type Prober struct {
	// the attempts outlive the calls that start them
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

// NewProber returns a Prober whose attempts end with ctx. wake is called, from
// another goroutine, when a cluster answers for the first time.
func NewProber(ctx context.Context, downstream Downstream, wake func(namespace, name string)) *Prober {
	return &Prober{ctx: ctx, downstream: downstream, wake: wake, tried: map[types.NamespacedName]*attempt{}}
}

// Answered reports whether the API server of a cluster has answered with the
// kubeconfig there is now. When it has not, attempts go on in the background.
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

// Forget ends the attempts to reach a cluster that is gone, and drops what is
// cached of it.
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

// ask is one attempt. Any answer counts that took the credential.
func (p *Prober) ask(ctx context.Context, cluster types.NamespacedName) bool {
	client, err := p.downstream.Client(ctx, cluster)
	if err != nil {
		return false
	}
	return client.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Error() == nil
}

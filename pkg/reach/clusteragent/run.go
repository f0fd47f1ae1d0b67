package clusteragent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// agent is one run.
type agent struct {
	options     Options
	server      *url.URL
	trust       *trust
	switchboard *switchboard
	replicas    *replicas
	sessions    sync.WaitGroup
	registered  atomic.Bool
	proven      atomic.Bool // a session has lived long enough since the last attempt
}

// Run keeps a session to every replica of the server until the context ends, which is no error. It fails for invalid
// options, and when it cannot listen on the health address. It logs and retries temporary problems, such as an
// unavailable server.
func Run(ctx context.Context, options Options) error {
	if err := options.complete(); err != nil {
		return fmt.Errorf("options: %w", err)
	}
	server, err := url.Parse(options.ServerURL)
	if err != nil {
		return fmt.Errorf("options: ServerURL: %w", err)
	}
	server = &url.URL{Scheme: server.Scheme, Host: server.Host}
	local, err := newProxy(options)
	if err != nil {
		return fmt.Errorf("options: %w", err)
	}
	a := &agent{
		options: options, server: server, switchboard: newSwitchboard(), replicas: newReplicas(),
		trust: &trust{server: server, file: options.CAFile, checksum: options.CAChecksum, proxy: options.Proxy},
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var parts sync.WaitGroup
	if options.HealthAddress != "" {
		parts.Go(func() {
			if err := serveHealth(ctx, options.HealthAddress, a.replicas.connected); err != nil {
				cancel(fmt.Errorf("serve health at %s: %w", options.HealthAddress, err))
			}
		})
	}
	answering := local.server()
	parts.Go(func() {
		if err := answering.Serve(a.switchboard); !errors.Is(err, http.ErrServerClosed) {
			cancel(fmt.Errorf("answer requests: %w", err))
		}
	})
	a.keep(ctx)
	a.sessions.Wait()
	_ = answering.Close()
	parts.Wait()
	local.close()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return nil
}

// keep opens sessions while there are fewer than replicas. After a lost session it pauses first, because thousands of
// agents may lose theirs at once.
func (a *agent) keep(ctx context.Context) {
	var pauses backoff
	for ctx.Err() == nil {
		if a.replicas.takeLost() {
			if a.proven.Swap(false) {
				pauses.reset()
			}
			rest(ctx, pauses.next(lastPause, random()))
			continue
		}
		if !a.replicas.lacking() {
			select {
			case <-ctx.Done():
			case <-a.replicas.changed:
			}
			continue
		}
		if err := a.run(ctx); err != nil {
			pause := duplicatePause + time.Duration(random()*float64(duplicatePause))
			if !errors.Is(err, errDuplicate) {
				pause = pauses.next(longest(err), random())
			}
			a.tell(ctx, err, pause)
			rest(ctx, pause)
		}
	}
}

// rest waits for a duration or the end of the context.
func rest(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// tell logs why there is no session.
func (a *agent) tell(ctx context.Context, err error, pause time.Duration) {
	log := a.options.Log.WithField("server", a.server.Host).WithField("again-in",
		pause.Round(time.Millisecond).String())
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, errDuplicate):
		log.Debug("No session to another replica yet")
	default:
		log.WithError(err).Warn("Cannot connect")
	}
}

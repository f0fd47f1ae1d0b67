package server

import (
	"context"
	"errors"
	"fmt"
	"sync"

	lassocache "github.com/rancher/lasso/pkg/cache"

	"github.com/drover-io/drover/pkg/controllers"
	"github.com/drover-io/drover/pkg/kube/access"
	"github.com/drover-io/drover/pkg/kube/capi"
	"github.com/drover-io/drover/pkg/kube/clients"
)

// Lead runs the controllers until ctx ends. The caller may call it again for another term. It waits for Serve. With a
// host's controller factory, the handlers are added to that factory for the duration of the term.
func (s *Server) Lead(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.serving:
	}
	term, cancel := context.WithCancelCause(ctx)
	defer cancel(errTermOver)
	return endOf(ctx, term, s.term(term, cancel))
}

// endOf returns the result of a term. It takes the context of the caller, the context of the term, and the error that
// the term returned.
func endOf(ctx, term context.Context, err error) error {
	switch cause := context.Cause(term); {
	case ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		return nil // the caller ended the term, which interrupted running work
	case ctx.Err() == nil && cause != nil && !errors.Is(cause, errTermOver):
		return cause // the cause of the end, rather than its consequences
	}
	return err
}

// errTermOver is the cause with which the context of a finished term ends.
var errTermOver = errors.New("the term has ended")

// term runs the controllers until ctx ends. If one of them fails, it calls cancel.
func (s *Server) term(ctx context.Context, cancel context.CancelCauseFunc) error {
	options := clients.Options{Version: s.opts.Version, SyncTimeout: s.opts.StartTimeout, Share: s.every,
		Observe: s.reconciles.Observe}
	// Kinds of a host's factory start once and keep running between terms.
	kinds := ctx //nolint:contextcheck // the other choice below is the context of Serve, on purpose
	if s.opts.ControllerFactory != nil {
		options.Factory, options.Share, kinds = s.opts.ControllerFactory, nil, s.serveContext
	}
	if s.opts.CAPI == CAPIEmbedded {
		core, ended, err := s.startCore(ctx, cancel)
		if err != nil {
			return err
		}
		options.WrapCaches = func(base lassocache.SharedCacheFactory) lassocache.SharedCacheFactory {
			return core.WrapCaches(base)
		}
		defer func() { cancel(errTermOver); <-ended }()
	}
	term, err := clients.New(s.opts.RESTConfig, options)
	if err != nil {
		return fmt.Errorf("create the controllers' clients: %w", err)
	}
	defer term.Stop()
	checker := access.New(access.Options{
		Key: s.grantsKey, Clusters: term.Provisioning.Cluster().Cache(), Review: access.Review(term.Kubernetes),
		Log: s.opts.Log,
	})
	told, silence, err := s.announce(term, lookup{term, s.opts.InstanceID})
	if err != nil {
		return err
	}
	defer silence()
	if err := controllers.Register(term.HandlerContext(), s.deps(term, checker, told)); err != nil {
		return fmt.Errorf("register controllers: %w", err)
	}
	if err := term.Start(kinds); err != nil {
		return fmt.Errorf("start controllers: %w", err)
	}
	unobserve, err := s.observe(term, told)
	if err != nil {
		return fmt.Errorf("observe clusters: %w", err)
	}
	defer unobserve()
	var background sync.WaitGroup
	defer background.Wait()
	defer cancel(errTermOver) // ends the background work before the wait
	background.Go(func() { s.publish(ctx) })
	background.Go(func() { checker.Run(ctx) })
	background.Go(func() { s.register(ctx) })
	s.leading.Store(true)
	defer s.leading.Store(false)
	s.opts.Log.Info("Controllers run")
	<-ctx.Done()
	return nil
}

// startCore starts Cluster API's core. If the core fails, startCore cancels the term with the reason. The channel
// closes when the core has ended.
func (s *Server) startCore(ctx context.Context, cancel context.CancelCauseFunc) (*capi.Core, <-chan struct{}, error) {
	core, err := capi.New(ctx, s.opts.RESTConfig, capi.Options{
		Door: s.reach.ways, Subscribe: s.subscribeConnections, Log: s.opts.Log.WithField("component", "cluster-api"),
		Thrifty: s.opts.CoreWrites == CoreWritesThrifty,
	})
	if err != nil {
		return nil, nil, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := core.Start(ctx); err != nil {
			cancel(err)
		}
	}()
	return core, ended, nil
}

func (s *Server) deps(c *clients.Clients, checker *access.Checker, told *announcer) controllers.Deps {
	return controllers.Deps{
		Clients:     c,
		InstanceID:  s.opts.InstanceID,
		Settings:    s.opts.Settings,
		Releases:    *s.opts.Releases,
		ServerImage: s.opts.agentImage(),
		Downstream:  s.opts.Downstream,
		Door:        s.reach.door,
		Servers:     s.opts.Reach.servers(),
		Tunnel:      s.reach.tunnel,
		AgentImage:  s.opts.installedAgent(),
		Access:      checker, InstallScriptSHA256: s.installScript, NodeAgent: s.nodeAgent,
		HostsWithoutNode: int(s.opts.Limits.HostsWithoutNode),
		Disruptions:      s.disruptions, AgentUpdates: s.agentUpdates,
		Reasons: s.fleet.Reasons, Announce: told.record,
		Log: s.opts.Log,
	}
}

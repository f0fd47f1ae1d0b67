package clients

import (
	"context"
	"errors"

	lassoclient "github.com/rancher/lasso/pkg/client"
)

// endingClients reports the API server as healthy to caches that have stopped. After a failed list, lasso's caches ask
// for its health until it is good, even if they have been stopped, and hold a lock meanwhile. Without this, a server
// that stops while it lists leaves goroutines that ask forever.
type endingClients struct {
	lassoclient.SharedClientFactory
}

// IsHealthy asks the API server. ctx belongs to one question. It has ended before the question, or is canceled during
// it, only if the cache or its starter has stopped.
func (c endingClients) IsHealthy(ctx context.Context) bool {
	return ctx.Err() != nil || c.SharedClientFactory.IsHealthy(ctx) || errors.Is(ctx.Err(), context.Canceled)
}

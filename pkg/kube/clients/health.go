package clients

import (
	"context"
	"errors"

	lassoclient "github.com/rancher/lasso/pkg/client"
)

// endingClients calls the API server healthy for whoever has stopped. After a list that failed lasso's caches ask until it is, whether anybody waits for them
// any more or not, and hold a lock meanwhile: without this, a server that is stopped while it lists leaves goroutines behind that ask for ever.
type endingClients struct {
	lassoclient.SharedClientFactory
}

// IsHealthy asks the API server. The context is that of one question, and has time for it at first unless the cache has stopped, or what it was started with.
func (c endingClients) IsHealthy(ctx context.Context) bool {
	return ctx.Err() != nil || c.SharedClientFactory.IsHealthy(ctx) || errors.Is(ctx.Err(), context.Canceled)
}

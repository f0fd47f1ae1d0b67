// Package clients contains everything that Drover uses to talk to the management cluster's API server: one set of
// generated clients, and one cache and one work queue per kind.
//
// It works around these problems of wrangler and lasso:
//
//   - Their clients use one process-wide scheme. A host with its own types for the same kinds would fail with "Double
//     registration". Clients has its own Scheme, and accepts a host's factory only if the host's scheme has the same Go
//     types.
//   - Start waits forever for a kind whose CRD is missing. Here it has a deadline, and its error names the kinds.
//   - A rate limiter for all kinds is one instance, so keys of different kinds share their counters. Here every kind
//     has its own.
//   - If workers and handlers share a context, handlers are removed while workers iterate over them, which is a data
//     race. Here Stop ends the workers, waits for running handlers, and only then ends the context of the handlers.
//   - A cache whose list fails keeps asking until the API server is healthy, even after the cache was stopped. Here
//     that ends.
//   - A panic in a handler ends the process. Here the handler fails, and the stack is logged.
//   - Every handler of a kind runs for every object of it. Only limits a handler to the objects that it wants.
//   - Caches cannot be started twice. Create new Clients for each term as a leader.
//
// Use:
//
//	c, err := clients.New(config, clients.Options{Version: version})
//	err = controllers.Register(c.HandlerContext(), …)   // handlers, indexers, caches
//	err = c.Start(ctx)                                  // fills the caches, then starts the workers
//	<-ctx.Done()
//	c.Stop()
//
// Dynamic covers kinds that come and go while Drover runs: the machine kinds of node drivers.
package clients

// Package clients holds everything with which Drover talks to the API server of the management cluster: one set of generated
// clients, one cache and one work queue per kind.
//
// What it takes off wrangler and lasso:
//
//   - their clients use one process-wide scheme, and a program that embeds Drover and has types of its own for the same kinds
//     would end with "Double registration". Clients has a Scheme of its own, and takes a host's factory only if the host's
//     scheme holds the same Go types;
//   - Start waits for ever for a kind whose CRD is missing. Here it has a deadline, and its error names the kinds;
//   - one rate limiter given for all kinds is one instance: keys of different kinds would share their counters. Here every
//     kind has its own;
//   - handlers are removed while workers still iterate over them when one context serves both, which is a data race. Here
//     Stop ends the workers, waits for the handlers that run, and only then ends the context that handlers registered with;
//   - a cache whose list fails asks until the API server is healthy, for ever when it was stopped meanwhile. Here that ends;
//   - a handler that panics ends the process. Here it has failed, and the stack is logged;
//   - caches cannot be started twice. Clients are made anew for each term as a leader.
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

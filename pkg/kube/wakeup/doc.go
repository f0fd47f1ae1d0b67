// Package wakeup wakes an object when another one changes.
//
// A controller that waits for something names what wakes it (see package outcome). This package connects the two:
//
//	wakeup.On(ctx, clusters, wakeup.ByLabel[*clusterv1.Machine](clusterv1.ClusterNameLabel), machines)
//
// After this call, every change of a Machine at once runs the handlers of the Cluster that its label names.
//
// The package replaces wrangler's relatedresource.Watch, which has these problems:
//
//   - Its Enqueue is rate limited. For a key in back-off it waits for the key's next slot and counts as a failure. This
//     package always uses EnqueueAfter with zero.
//   - It calls the resolver with a nil object on deletion, and a second later with the last known one, in another
//     goroutine. It misses deletions that a new list finds. Here a resolver sees every object, including deleted ones,
//     and never nil.
//   - When a label or an owner changes, it wakes only the new target. This package wakes both.
//   - It is a handler in the queue of the watched kind, so other failing handlers run it again. Here it is an event
//     handler of the informer and needs no queue.
//
// A resolver runs in the informer's goroutine. It reads its object and, at most, a cache.
package wakeup

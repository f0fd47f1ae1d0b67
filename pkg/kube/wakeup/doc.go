// Package wakeup wakes an object when another one changes.
//
// A controller that waits for something names what wakes it (see package outcome); here is how the two are tied together:
//
//	wakeup.On(ctx, clusters, wakeup.ByLabel[*clusterv1.Machine](clusterv1.ClusterNameLabel), machines)
//
// makes every change of a Machine run the handlers of the Cluster that its label names, at once.
//
// It replaces wrangler's relatedresource.Watch, whose edges are:
//
//   - its Enqueue is the rate limited one: on a key in back-off it waits for the key's next slot and counts as one more
//     failure. Here it is always EnqueueAfter with zero;
//   - its resolver is called with a nil object on deletion, and a second later, in another goroutine, with the last known
//     one; deletions found by a new list are missed. Here a resolver sees every object, deleted ones included, and never
//     nil;
//   - when a label or an owner changes, only the new target is woken. Here both are;
//   - it is a handler in the queue of the watched kind, so that every failing neighbour runs it again. Here it is an event
//     handler of the informer, and costs no queue.
//
// A resolver runs in the informer's goroutine: it reads the object it is given and, at most, a cache.
package wakeup

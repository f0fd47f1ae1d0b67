// Package thrift makes Cluster API's core need fewer requests and less time. Its parts stand between the reconcilers
// and the API server; the reconcilers are Cluster API's own and unchanged.
//
//	t := thrift.New(thrift.Options{Scheme: scheme, Log: log})
//	config.Wrap(t.Transport)                                  // learns the versions of own writes
//	cacheOptions.NewInformer = t.Informers(cacheOptions.NewInformer)
//	client := t.Client(manager.GetClient())                   // drops applies that change nothing
//	options.NewQueue = t.Queues(nil)                          // the pace of each object
//
// # Elision
//
// Cluster API applies its objects after each change, also of their status, and a new leader applies all of them. Client
// drops an apply if the object in the cache shows that the API server would change nothing: the manager's entry in
// managedFields is exactly the one of the wish, and each value is the same. There is no memory of earlier applies, so a
// new process drops as many. In doubt, the apply is sent.
//
//   - The API server's schema is not known here, and the entry tells how it merges a field. An entry that a change of
//     the schema or of other managers' versions would rewrite stays until the wish changes.
//   - A null, and an empty map or list that the API server does not store so, are sent each time. Cluster API leaves
//     out what is empty, but for the annotations of a Machine's halves, and those always have some of others.
//   - Own applies: while the cache does not show the last apply of an object, all are sent. The queue starts no
//     reconcile before the caches show own writes, and so this is about applies within one reconcile, and those that
//     have failed.
//   - Writes of others, such as of the leader before: a core fills its caches after it leads. client-go requests that
//     the API server's answer is as new as etcd. An older API server may answer from its own cache. Then the wish
//     comes from old objects too. Events of the object or of its Machine, and the resync at the latest, repeat the
//     reconcile. Until then a dropped apply does less harm than one that writes an old wish over a newer one.
//
// # Pace
//
// Cluster API's gate ReconcilerRateLimiting lets each object wait a second between reconciles. It is process-wide, and
// there is no shorter interval. Without the gate, the queue here does what the gate does otherwise:
//
//   - Interval: an object starts no sooner than an interval after its last start.
//   - Caches: an object starts when the caches show everything that this process wrote during the object's last
//     reconcile. As in Cluster API, there is no time-out. A reconciler that reads old caches makes objects twice, or
//     deletes the halves of a Machine that it does not see. Cluster API waits for the writes that a reconciler reports.
//     Here, all writes of that time count, because a write does not say which reconcile sent it. A cache that stands
//     still therefore stops only objects whose reconcile ran during a write to its kind.
//   - Uncertain writes: if the API server's answer to a write was lost or says nothing about its version, the object
//     waits a second, as with the gate.
//   - Errors: a reconcile with an error is repeated after a second and some milliseconds, and then ever later. An event
//     repeats it earlier, as with the gate.
//   - Drain: a Machine that waits for pods or volumes while it is deleted rests as long as it has requested
//     (DeferNextReconcile), also if events arrive. Each reconcile costs requests to its cluster.
//
// Three effects of the gate are gone:
//
//   - A Machine without provider ID does not wait five seconds after each look at its infrastructure machine. The look
//     costs no request, and an interval limits it.
//   - The metrics capi_reconcile_* count nothing. Those of controller-runtime and of the queue remain.
//   - If a reconciler returns an error and a time, controller-runtime ignores the time and logs a line.
package thrift

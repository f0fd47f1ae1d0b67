// Package memkube is an API server in memory, without a process, a socket or a clock of its own.
//
// It is an http.RoundTripper, so a client needs only a different rest.Config. It is also an http.Handler, so tests can
// serve it over TLS as the API of a downstream cluster. It runs inside testing/synctest: hours of back-off, resyncs and
// deadlines pass at once, in a fixed order.
//
// It implements:
//
//   - discovery; create, read, update, delete, delete collection; merge, JSON and strategic patches
//   - the status subresource, optimistic locking, generation, finalizers
//   - deletion in the foreground, in the background and with orphans, and the garbage collector
//   - namespaces and their content
//   - watches from a resource version with a history, selectors, bookmarks and time-outs
//   - custom resources with definitions added at run time: pruning, defaulting, validation and CEL rules
//   - tokens of service accounts
//
// It does not implement answers in protobuf, conversion between versions, admission webhooks, RBAC and quotas.
// Authorize is a hook in place of RBAC. It does not implement server-side apply either: an apply patch is a merge patch
// that may create.
//
// It adds three features for tests. It logs requests with their user agent, so a test can assert "this reconcile writes
// twice". It can cut off a client after its n-th write, which tests a crash at any point. Intercept answers chosen
// requests with an error.
//
//	api := memkube.New(memkube.Options{Scheme: scheme})
//	cfg := api.Config("drover/test")
package memkube

// Package memkube is an API server in memory: no process, no socket, no clock of its own.
//
// It is an http.RoundTripper, so a rest.Config is all that changes for a client, and an http.Handler, so that it can also be
// served over TLS as the API of a downstream cluster. Everything runs inside testing/synctest: back-offs, resyncs and
// deadlines of hours pass at once, and in a fixed order.
//
// What is real: discovery; create, read, update, delete, delete collection; merge, JSON and strategic patches; the status
// subresource; optimistic locking; generation; finalizers; deletion in the foreground, in the background and with orphans;
// the garbage collector; namespaces and what is in them; watches from a resource version with a history, selectors, bookmarks
// and time-outs; custom resources whose definitions come at run time, with pruning, defaulting, validation and CEL rules;
// tokens of service accounts.
//
// What is not: answers in protobuf, conversion between versions, admission webhooks, RBAC (Authorize is a hook), apply by the server
// (an apply patch is a merge patch that may create), and quotas.
//
// Three things are better than real. Requests are logged with their user agent, so that "this reconcile writes twice" is an
// assertion. A client can be cut off after its n-th write, which is how a crash at any point is tested. And Intercept answers
// chosen requests with an error.
//
//	api := memkube.New(memkube.Options{Scheme: scheme})
//	cfg := api.Config("drover/test")
package memkube

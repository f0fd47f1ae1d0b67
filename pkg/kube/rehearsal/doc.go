// Package rehearsal runs controllers without writing objects. A Stage reads live objects once, keeps the controllers'
// writes to itself, shows them to the controllers, and returns the differences at the end. A preview therefore comes
// from the controller itself and cannot disagree with what it then does. A program that only reads uses a stage as its
// cache.
//
// # Limits of a stage
//
// Only the controllers act on a stage: it has no Cluster API, no nodes and no agents. It does what the API server does
// at once: it sets UIDs and versions, refuses writes of old versions, and fills in the token of a service account. It
// runs no admission.
//
// Use a stage from one goroutine only.
package rehearsal

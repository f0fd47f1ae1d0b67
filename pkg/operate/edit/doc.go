// Package edit describes changes of a Cluster as values: another size of a pool, another Kubernetes version, a
// deletion, or a manifest that a user has typed. A Change knows the Cluster that the user has seen, the Cluster after
// the change, and the patch between them. A Text knows its objects and the lines of their fields, so that each Problem
// has a position. Commands and endpoints show the effect with package preview, and write it with package apply.
//
// The package is pure: objects come in as values.
package edit

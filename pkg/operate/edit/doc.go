// Package edit describes changes of a Cluster as values: another size of a pool, another Kubernetes version, a
// deletion. A change knows the Cluster that the user has seen, the Cluster after the change, and the patch between
// them. Commands and endpoints show the change with package preview, and write it with package apply.
//
// The package is pure: objects come in as values.
package edit

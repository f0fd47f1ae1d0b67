// Package manifests applies the documented Cluster manifests to a real API server as users would, and compares the
// results with golden files. These are the Cluster API objects, and the first plans of the init node, of a joining
// server and of a worker. `go test ./contract/manifests -update` rewrites the golden files. Read the difference before
// you commit it.
package manifests

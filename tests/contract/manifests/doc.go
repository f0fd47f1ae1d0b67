// Package manifests applies the documented Cluster manifests to a real API server, as their users would, and compares what
// Drover makes of them with golden files: the Cluster API objects, and the first plans of the machine that starts the cluster,
// of a server that joins it, and of a worker. `go test ./contract/manifests -update` writes the golden files anew; read the
// difference before committing it.
package manifests

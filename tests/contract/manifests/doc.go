// Package manifests applies the documented Cluster manifests to a real API server, as their users would, and compares what
// Drover makes of them with golden files: the Cluster API objects, and the first plan of the machine that starts the
// cluster. `go test ./contract/manifests -update` writes the golden files anew; read the difference before committing it.
package manifests

// Package crds holds the definitions of Drover's kinds and installs them.
//
// All reads the YAML that scripts/generate writes from the Go types. Ensure brings a list of definitions, these or
// others, into an API server and returns when all of them are served. It follows one rule about ownership:
//
//	the definition is missing               it is made, and marked as Drover's
//	it is Drover's                          it is brought up to date, unless a newer Drover wrote it
//	another product owns it, or nobody      it is used as it is, and has to serve the version that is needed
//	said whose it is
//
// The mark is the label app.kubernetes.io/managed-by. Someone who runs a larger server with the same kinds therefore
// keeps theirs, and a Cluster API that was installed before keeps its conversion webhooks.
package crds

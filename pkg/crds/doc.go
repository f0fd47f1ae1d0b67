// Package crds holds the definitions of Drover's kinds and installs them.
//
// All reads the YAML that scripts/generate writes from the Go types. Ensure installs a list of definitions, these or
// others, and returns when the API server serves all of them. It follows one rule about ownership:
//
//	the definition is missing               Ensure creates it, and marks it as Drover's
//	the definition is Drover's              Ensure updates it, unless a newer Drover wrote it
//	it has another owner or no mark         Ensure does not change it; it has to serve the required version
//
// The mark is the label app.kubernetes.io/managed-by. A larger server with the same kinds therefore keeps its
// definitions, and an existing Cluster API keeps its conversion webhooks.
package crds

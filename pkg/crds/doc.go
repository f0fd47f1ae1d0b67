// Package crds holds the definitions of Drover's kinds and installs them.
//
// All reads the YAML that scripts/generate writes from the Go types. Ensure installs a list of definitions, these or
// others, and returns when the API server serves all of them. It follows one rule about ownership:
//
//	the definition is missing               Ensure creates it, and marks it as Drover's
//	the definition is Drover's              Ensure updates it, unless a newer Drover wrote it
//	another owner has it, or it has no mark Ensure leaves it; the required version must be served
//
// The mark is the label app.kubernetes.io/managed-by. A larger server with the same kinds therefore keeps its
// definitions, and an existing Cluster API keeps its conversion webhooks.
package crds

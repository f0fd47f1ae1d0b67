// Package inspect reads what the controllers read, with the permissions of the user, and explains or previews what the
// controllers would do. It writes nothing: it refuses every request except GET and HEAD. It watches nothing: it reads
// each object once, when it needs it. A user needs read permission only for the cluster's namespace, the management
// Cluster and the schemas of node drivers.
package inspect

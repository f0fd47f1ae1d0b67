// Package tenancy knows what a Cluster may use outside its own namespace. A namespace is a tenant: what is in it belongs to those who may
// write there, and a Cluster uses it freely. Of other namespaces a Cluster may name Secrets only (References), and each of them in one of
// two ways:
//
//   - the Secret says so itself: an annotation lists the Cluster, or its whole namespace (Offered);
//   - whoever wrote the reference may get the Secret, now as well as then. Admission asks the API server when the reference is written, and
//     leaves a grant on the Cluster, with the name of the author, under a signature that nobody in a tenant's namespace can make (Grants).
//     Controllers ask again, in the name of that author, for as long as the reference stands.
//
// The package decides on values. Package access asks the API server.
package tenancy

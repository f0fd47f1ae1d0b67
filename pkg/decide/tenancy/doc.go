// Package tenancy decides what a Cluster may use outside its own namespace. A namespace is a tenant: its content
// belongs to the users with write access there, and a Cluster uses it freely. From other namespaces a Cluster may use
// only Secrets (References), and each of them in one of two ways:
//
//   - The Secret permits it: an annotation lists the Cluster, or its whole namespace (Offered).
//   - The author of the reference may get the Secret, both when writing the reference and later. Admission asks the API
//     server when the reference is written. It stores a grant on the Cluster with the author's name and a signature
//     that users of a tenant's namespace cannot forge (Grants). Controllers ask again, in the author's name, for as
//     long as the reference exists.
//
// The package is pure. Package access asks the API server.
package tenancy

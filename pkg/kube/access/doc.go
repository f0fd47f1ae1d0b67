// Package access answers whether a Cluster may use a Secret of another namespace. Package tenancy has the rules. This
// package asks the API server what the author of a reference may do. Admission asks once, when the reference is written
// (Review). Then a Checker asks in the background, at intervals. It answers handlers from memory, so that a reconcile
// never waits.
package access

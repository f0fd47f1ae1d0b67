// Package access answers whether a Cluster may use a Secret of another namespace. What makes it so is decided in package tenancy; here the
// API server is asked what the author of a reference may do: once by admission, when the reference is written (Review), and from then on
// by a Checker, in the background and at intervals. Handlers ask the Checker, which answers from memory: a reconcile waits for nobody.
package access

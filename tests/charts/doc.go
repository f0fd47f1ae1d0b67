// Package charts renders the charts of the repository with Helm's own engine and without a cluster, and checks the
// result.
package charts

// Package charts renders the charts of the repository as Helm does, with Helm's own engine and no cluster, and reads the
// permissions that they give.
package charts

// Package v3 holds the kinds of the API group management.cattle.io that provisioning needs: node drivers and their
// schemas, the management side of a cluster, and the tokens with which hosts register.
//
// A larger server that owns these kinds has more fields. If it owns the kinds, Drover only uses them.
package v3

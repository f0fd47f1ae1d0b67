// Package v3 holds the kinds of the API group management.cattle.io that provisioning needs: node drivers and their
// schemas, the management side of a cluster, and the tokens by which hosts register.
//
// A larger server that owns these kinds has more fields than are written here. Where it owns them, Drover only uses them.
package v3

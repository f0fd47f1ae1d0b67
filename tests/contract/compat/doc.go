// Package compat says what Drover does with each kind, field, label, annotation, finalizer, Secret type, condition and
// setting of Rancher's provisioning API. docs/compatibility.md is written from its tables.
//
// The test walks the Go types and the constants, so that each field and each name has exactly one verdict. It needs no
// API server. `go -C tests test ./contract/compat -update` writes the page.
package compat

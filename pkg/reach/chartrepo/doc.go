// Package chartrepo downloads Helm charts from repositories that users of a namespace name: an index.yaml with archives
// over HTTP, or an OCI registry.
//
// The user, the repository and the chart are untrusted. Connections follow the rules of package proxy for addresses,
// also after a redirect and for the address of a name. A download has limits for its time, its bytes, and its size when
// unpacked. A credential is sent only over TLS, and only to the repository itself. Errors name the repository, and
// contain no credential and no text of the repository.
//
// Helm's own packages for repositories and registries have no such limits, and start plugins. Only its loader, which
// reads the files of a chart, is used here.
package chartrepo

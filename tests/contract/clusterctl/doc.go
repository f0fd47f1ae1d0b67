// Package clusterctl installs Drover with the stock clusterctl, as docs/providers.md describes. The release is that of
// scripts/release, in a local repository, next to one with Cluster API's own core.
//
// No pods run here. Instead of the server's pod, the test runs the program with the Deployment's arguments and with the
// token of the Deployment's account. Definitions of cert-manager's kinds stand for cert-manager.
package clusterctl

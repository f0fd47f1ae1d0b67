// Package summary decides the state of a cluster and of a machine from their conditions. Metrics, the command drover
// status and the web pages share these decisions.
package summary

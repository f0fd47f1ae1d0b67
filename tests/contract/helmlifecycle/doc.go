// Package helmlifecycle installs, tests, upgrades and removes Drover with Helm, as docs/install.md describes, while
// clusters exist. The chart has its default values: two replicas that are replaced one after another. Machines and the
// API server reach them through Services.
//
// The plane alone lacks the network for that. The test program moves into its own network (network_test.go), where
// every pod has an address. The addresses and names of Services lead to ready pods (services_test.go).
package helmlifecycle

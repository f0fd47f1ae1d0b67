// Package helmlifecycle installs, tests, upgrades and removes Drover with Helm, as docs/install.md tells, while clusters live. The chart has
// its default values: two replicas that are replaced one after another, by whose Services machines and the API server reach them.
//
// That takes what a cluster has and the plane alone has not. The test program moves into a network of its own (network_test.go), where
// every pod has an address and the addresses and names of Services lead to pods that are ready (services_test.go).
package helmlifecycle

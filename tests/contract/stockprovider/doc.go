// Package stockprovider runs a cluster on machines of another infrastructure provider: the in-memory provider of
// Cluster API's own tests, unchanged. Module codegen/stockprovider pins it. The provider owns the kinds DevCluster,
// DevMachine and DevMachineTemplate, and makes machines that exist only in its memory. pkg/testkit/fakeagent simulates
// what runs on them. The provider also simulates a kubeadm cluster at the endpoint of each DevCluster. Drover does not
// use that cluster. The provider listens on the ports 19000 and 20000, so only one of it runs on a host.
package stockprovider

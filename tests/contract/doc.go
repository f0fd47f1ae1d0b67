// Package contract is the parent of the tests against a real API server.
//
// Each package below starts one management plane for all its tests (package plane): a real etcd and kube-apiserver as
// child processes, without machines. Where garbage collection or Jobs matter, it adds a controller manager.
// pkg/testkit/fakeagent simulates the nodes. `make test-contract RUN=regex` runs single tests. The programs come from
// bin/, or from the directory in DROVER_BIN.
package contract

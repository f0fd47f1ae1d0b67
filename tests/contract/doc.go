// Package contract is the parent of the tests against a real API server.
//
// Each package below starts one management plane for all its tests (package plane): a real etcd and kube-apiserver as
// child processes, with a controller manager where garbage collection or Jobs matter, and no machines. What a node would do
// is played by pkg/testkit/fakeagent. `make test-contract RUN=regex` runs single tests; the programs come from bin/, or from
// the directory that DROVER_BIN names.
package contract

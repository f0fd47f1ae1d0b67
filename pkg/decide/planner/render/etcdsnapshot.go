package render

import "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"

// SnapshotCreateWork takes a snapshot of etcd (docs/wire/planner.md#snapshot). The node's configuration decides where
// it is stored and how many are kept.
func (n Node) SnapshotCreateWork(attempt string) Work {
	return Work{
		Operation: OperationSnapshot,
		Attempt:   attempt,
		Instructions: []plan.OneTimeInstruction{
			n.Idempotent("etcd-snapshot/create", attempt, bounded(commandSeconds, n.Runtime.Command(), "etcd-snapshot",
				"save")),
		},
	}
}

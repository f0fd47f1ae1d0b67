package render

import (
	_ "embed" // the script that nodes run
	"errors"
	"fmt"
	"slices"
	"strconv"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
)

//go:embed scripts/snapshot_in_s3.sh
var snapshotInS3Script string

// snapshotKey names a snapshot in a node's records and directories.
const snapshotKey = "etcd-snapshot"

// SnapshotCreateWork takes a snapshot of etcd (docs/wire/planner.md#snapshot). The node's configuration decides where
// it is stored and how many are kept. With s3, the work fails when the snapshot is not in S3: the distribution then
// keeps it on the node only, and reports success.
func (n Node) SnapshotCreateWork(attempt string, s3 bool) Work {
	work := Work{
		Operation: OperationSnapshot,
		Attempt:   attempt,
		Instructions: []plan.OneTimeInstruction{
			n.Idempotent(snapshotKey+"/create", attempt, bounded(commandSeconds, n.Runtime.Command(), "etcd-snapshot",
				"save")),
		},
	}
	if s3 {
		script, instruction := n.inS3(nil, "saved")
		work.Files, work.Instructions = []plan.File{script}, append(work.Instructions, instruction)
	}
	return work
}

// inS3 asks the distribution on the node for its snapshots in S3.
func (n Node) inS3(env []string, mode string, args ...string) (plan.File, plan.OneTimeInstruction) {
	script := n.script(snapshotKey, "snapshot_in_s3.sh", snapshotInS3Script)
	command := bounded(searchSeconds, append([]string{"/bin/sh", script.Path, mode, n.Runtime.Command(), n.Unit()},
		args...)...)
	return script, plan.OneTimeInstruction{CommonInstruction: plan.CommonInstruction{
		Name: "snapshot-in-s3", Command: command.Name, Args: command.Args, Env: env,
	}}
}

// InS3 reports whether the cluster stores its snapshots in S3.
func InS3(spec *rkev1.RKEControlPlaneSpec) bool { return spec.ETCD != nil && s3Enabled(spec.ETCD.S3) }

// FindInS3Work fails when a snapshot in S3 cannot be restored: S3 does not answer, refuses the credential, or does not
// have the whole snapshot. It disrupts nothing. The storage of the snapshot may differ from the cluster's own, so the
// distribution reads none of the node's configuration.
func FindInS3Work(in Input, source Source, attempt string) (Work, error) {
	m := newMachinePlan(in)
	storage, recorded := m.storageOf(source.S3)
	options, ca, err := m.s3Options(storage)
	switch {
	case err != nil:
		return Work{}, fmt.Errorf("the snapshot's storage: %w", err)
	case len(options) == 0:
		return Work{}, errors.New("the snapshot has no S3 storage")
	}
	if ca != nil && (recorded == "" || recorded == ca.Path) { // the node may not have the file
		options, recorded = slices.Clone(options), ""
		for i := range options {
			if options[i].key == "etcd-s3-endpoint-ca" {
				options[i].value = ca.Content
			}
		}
	}
	node := NodeOf(in)
	args, env := s3Arguments(options, recorded)
	env = append(env, node.Runtime.EnvPrefix()+"_CONFIG_FILE=/dev/null", node.dataDirEnv())
	script, instruction := node.inS3(env, "found", append([]string{source.File, strconv.FormatInt(source.Size, 10)},
		args...)...)
	return Work{
		Operation: OperationFind, Attempt: attempt, Files: []plan.File{script},
		Instructions: []plan.OneTimeInstruction{instruction},
	}, nil
}

// Finds reports that a plan looks for a snapshot in S3.
func Finds(p plan.NodePlan) bool { return OperationOf(p) == OperationFind }

package planner

import (
	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// ETCDSnapshot is an ETCDSnapshot object that a restore can name.
type ETCDSnapshot struct {
	Name string `json:"name"`
	// Cluster is the cluster of the snapshot.
	Cluster string `json:"cluster,omitempty"`
	// MachineUID is the owner of a snapshot that a machine holds, empty for snapshots in S3
	// (docs/wire/planner.md#etcdsnapshot-objects).
	MachineUID types.UID `json:"machineUID,omitempty"`
	// File is the name of the snapshot's file.
	File string `json:"file,omitempty"`
	// Folder is the directory of the file on the machine, empty for the usual one.
	Folder string `json:"folder,omitempty"`
	// S3 is the storage that holds the file, nil when a machine holds it. The Objects of the Snapshot contain the
	// Secret with its credential. When S3 names no Secret, they contain the one of spec.rkeConfig.etcd.s3.
	S3 *rkev1.ETCDSnapshotS3 `json:"s3,omitempty"`
	// Size is the size of the file in S3 in bytes, 0 when it is not known.
	Size int64 `json:"size,omitempty"`
	// Failed is true when the snapshot could not be taken. Message says why.
	Failed  bool   `json:"failed,omitempty"`
	Message string `json:"message,omitempty"`
	// KubernetesVersion is the version of the cluster when the snapshot was taken, empty when it is not known.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// ConfigurationProblem says why the configuration of the control plane is not that of the snapshot, although the
	// requested restore includes it. It matters until the restore has stopped machines.
	ConfigurationProblem string `json:"configurationProblem,omitempty"`
}

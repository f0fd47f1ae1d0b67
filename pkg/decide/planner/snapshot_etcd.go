package planner

import (
	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// ETCDSnapshot is an ETCDSnapshot object, of which a restore can name one.
type ETCDSnapshot struct {
	Name string `json:"name"`
	// Cluster is the cluster that the snapshot was taken of.
	Cluster string `json:"cluster,omitempty"`
	// MachineUID is the owner of a snapshot that a machine holds, empty for those in S3
	// (docs/wire/planner.md#etcdsnapshot-objects).
	MachineUID types.UID `json:"machineUID,omitempty"`
	// File is the name of the snapshot's file.
	File string `json:"file,omitempty"`
	// Folder is where the machine has the file, empty for the usual one.
	Folder string `json:"folder,omitempty"`
	// S3 is the storage that holds the file, nil when a machine does. The Secret with its credential, or with the one of
	// spec.rkeConfig.etcd.s3 when it names none, is among the Objects of the Snapshot.
	S3 *rkev1.ETCDSnapshotS3 `json:"s3,omitempty"`
	// Failed is true for a snapshot that was not taken; Message says why.
	Failed  bool   `json:"failed,omitempty"`
	Message string `json:"message,omitempty"`
	// KubernetesVersion is that of the cluster when the snapshot was taken, empty when it is not known.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
}

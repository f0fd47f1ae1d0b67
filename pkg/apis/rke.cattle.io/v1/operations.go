package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ETCDSnapshotCreate requests a snapshot. The operation starts when the request differs from the one in
// RKEControlPlane.status.
type ETCDSnapshotCreate struct {
	// A change of Generation requests another snapshot.
	// +optional
	Generation int `json:"generation,omitempty"`
}

// ETCDSnapshotRestore requests a restore. The operation starts when the request differs from the one in
// RKEControlPlane.status.
type ETCDSnapshotRestore struct {
	// Name of an ETCDSnapshot object in the namespace of the cluster. A name without an object is the name of a file in
	// `server/db/snapshots` of the data directory, for which exactly one machine may have etcd. Empty means no restore.
	// +nullable
	// +optional
	Name string `json:"name,omitempty"`

	// A change of Generation restores the same snapshot again.
	// +optional
	Generation int `json:"generation,omitempty"`

	// RestoreRKEConfig is the part of the Cluster's spec that goes back to the snapshot's: nothing (empty or `none`), the
	// Kubernetes version (`kubernetesVersion`), or the version and the configuration of the cluster, without its pools
	// (`all`). The snapshot must be an ETCDSnapshot with that part in its metadata. The spec is set once for each
	// request.
	// +nullable
	// +optional
	RestoreRKEConfig RestoreMode `json:"restoreRKEConfig,omitempty"`
}

// RestoreMode is the part of a cluster's configuration that is restored together with the data.
type RestoreMode string

const (
	// RestoreModeNone restores only data. An empty value means the same.
	RestoreModeNone RestoreMode = "none"
	// RestoreModeKubernetesVersion also restores the Kubernetes version.
	RestoreModeKubernetesVersion RestoreMode = "kubernetesVersion"
	// RestoreModeAll also restores the Kubernetes version and the cluster's configuration.
	RestoreModeAll RestoreMode = "all"
)

// RotateCertificates requests new certificates on the nodes.
type RotateCertificates struct {
	// A change of Generation starts a rotation. Other changes start nothing.
	// +optional
	Generation int64 `json:"generation,omitempty"`

	// Services whose certificates are rotated, with the names of the distribution's `certificate rotate`. Empty means
	// all.
	// +nullable
	// +optional
	Services []string `json:"services,omitempty"`
}

// RotateEncryptionKeys requests a new key that encrypts Secrets in etcd.
type RotateEncryptionKeys struct {
	// A change of Generation starts a rotation.
	// +optional
	Generation int64 `json:"generation,omitempty"`
}

// ETCDSnapshotPhase is the progress of the creation or the restore of a snapshot.
type ETCDSnapshotPhase string

const (
	// ETCDSnapshotPhaseStarted is the first phase of both operations.
	ETCDSnapshotPhaseStarted ETCDSnapshotPhase = "Started"
	// ETCDSnapshotPhaseShutdown stops the whole cluster before a restore.
	ETCDSnapshotPhaseShutdown ETCDSnapshotPhase = "Shutdown"
	// ETCDSnapshotPhaseRestore restores the snapshot on one machine.
	ETCDSnapshotPhaseRestore ETCDSnapshotPhase = "Restore"
	// ETCDSnapshotPhasePostRestorePodCleanup removes pods that run according to the restored data.
	ETCDSnapshotPhasePostRestorePodCleanup ETCDSnapshotPhase = "PostRestorePodCleanup"
	// ETCDSnapshotPhaseInitialRestartCluster starts the machines with the restored data.
	ETCDSnapshotPhaseInitialRestartCluster ETCDSnapshotPhase = "InitialRestartCluster"
	// ETCDSnapshotPhasePostRestoreNodeCleanup removes nodes that no longer have a machine.
	ETCDSnapshotPhasePostRestoreNodeCleanup ETCDSnapshotPhase = "PostRestoreNodeCleanup"
	// ETCDSnapshotPhaseRestartCluster is the last pass over all machines of both operations.
	ETCDSnapshotPhaseRestartCluster ETCDSnapshotPhase = "RestartCluster"
	// ETCDSnapshotPhaseFinished is success.
	ETCDSnapshotPhaseFinished ETCDSnapshotPhase = "Finished"
	// ETCDSnapshotPhaseFailed is failure.
	ETCDSnapshotPhaseFailed ETCDSnapshotPhase = "Failed"
)

// RotateEncryptionKeysPhase is the progress of a rotation of encryption keys.
type RotateEncryptionKeysPhase string

const (
	// RotateEncryptionKeysPhasePrepare creates the new key.
	RotateEncryptionKeysPhasePrepare RotateEncryptionKeysPhase = "Prepare"
	// RotateEncryptionKeysPhasePostPrepareRestart restarts the servers so that all know the new key.
	RotateEncryptionKeysPhasePostPrepareRestart RotateEncryptionKeysPhase = "PostPrepareRestart"
	// RotateEncryptionKeysPhaseRotate makes the new key the encryption key.
	RotateEncryptionKeysPhaseRotate RotateEncryptionKeysPhase = "Rotate"
	// RotateEncryptionKeysPhasePostRotateRestart restarts the servers so that all use the new key.
	RotateEncryptionKeysPhasePostRotateRestart RotateEncryptionKeysPhase = "PostRotateRestart"
	// RotateEncryptionKeysPhaseReencrypt writes all Secrets with the new key.
	RotateEncryptionKeysPhaseReencrypt RotateEncryptionKeysPhase = "Reencrypt"
	// RotateEncryptionKeysPhasePostReencryptRestart restarts the servers so that all forget the old key.
	RotateEncryptionKeysPhasePostReencryptRestart RotateEncryptionKeysPhase = "PostReencryptRestart"
	// RotateEncryptionKeysPhaseDone is success.
	RotateEncryptionKeysPhaseDone RotateEncryptionKeysPhase = "Done"
	// RotateEncryptionKeysPhaseFailed is failure.
	RotateEncryptionKeysPhaseFailed RotateEncryptionKeysPhase = "Failed"
)

// OperationState is the state of an operation.
type OperationState string

const (
	// OperationStateRunning is an operation that has started and not ended.
	OperationStateRunning OperationState = "Running"
	// OperationStateSucceeded is an operation that succeeded.
	OperationStateSucceeded OperationState = "Succeeded"
	// OperationStateFailed is an operation that failed.
	OperationStateFailed OperationState = "Failed"
	// OperationStateCancelled is an operation whose request was withdrawn while it ran.
	OperationStateCancelled OperationState = "Cancelled"
)

// OperationRecord is the record of one kind of operation, in addition to its phase. It remains after the request is
// removed.
type OperationRecord struct {
	// Name of the kind of operation.
	// +required
	Name string `json:"name"`

	// Attempt counts the starts. Nodes record it with every successful command, so it is never used twice.
	// +optional
	Attempt int64 `json:"attempt,omitempty"`

	// Request is the request at the last start, as JSON.
	// +optional
	Request string `json:"request,omitempty"`

	// State is the state of the last start.
	// +optional
	// +kubebuilder:validation:Enum=Running;Succeeded;Failed;Cancelled
	State OperationState `json:"state,omitempty"`

	// Step is the current step, or the last step of an ended operation.
	// +optional
	Step string `json:"step,omitempty"`

	// StepStartedAt is the start of that step. An operation fails when a step takes too long.
	// +optional
	StepStartedAt *metav1.Time `json:"stepStartedAt,omitempty"`

	// Message is the reason of the failure.
	// +optional
	Message string `json:"message,omitempty"`

	// Stopped is true from the time at which a restore stops the cluster until etcd is restored. Meanwhile the machines
	// have no data: without a restore they would start an empty cluster.
	// +optional
	Stopped bool `json:"stopped,omitempty"`
}

package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ETCDSnapshotCreate asks for a snapshot. The operation starts when the request differs from the one in
// RKEControlPlane.status.
type ETCDSnapshotCreate struct {
	// Generation is changed to ask for another snapshot.
	// +optional
	Generation int `json:"generation,omitempty"`
}

// ETCDSnapshotRestore asks for a restore. The operation starts when the request differs from the one in
// RKEControlPlane.status.
type ETCDSnapshotRestore struct {
	// Name of an ETCDSnapshot object in the namespace of the cluster. A name without an object is that of a file in `server/db/snapshots` of
	// the data directory, for which exactly one machine may have etcd. Empty asks for nothing.
	// +nullable
	// +optional
	Name string `json:"name,omitempty"`

	// Generation is changed to restore the same snapshot again.
	// +optional
	Generation int `json:"generation,omitempty"`

	// RestoreRKEConfig says what the snapshot's metadata have to hold: nothing (empty or `none`), the Kubernetes version
	// (`kubernetesVersion`), or the version and the configuration (`all`). Data alone are restored in each case: the spec is left to its
	// author.
	// +nullable
	// +optional
	RestoreRKEConfig RestoreMode `json:"restoreRKEConfig,omitempty"`
}

// RestoreMode says how much of a cluster's configuration its author means to bring back with a restore.
type RestoreMode string

const (
	// RestoreModeNone restores data only. An empty value means the same.
	RestoreModeNone RestoreMode = "none"
	// RestoreModeKubernetesVersion asks for a snapshot that tells the Kubernetes version.
	RestoreModeKubernetesVersion RestoreMode = "kubernetesVersion"
	// RestoreModeAll asks for a snapshot that tells the Kubernetes version and the cluster's configuration.
	RestoreModeAll RestoreMode = "all"
)

// RotateCertificates asks for new certificates on the nodes.
type RotateCertificates struct {
	// Generation is changed to start a rotation. Other changes start nothing.
	// +optional
	Generation int64 `json:"generation,omitempty"`

	// Services whose certificates are rotated, as the distribution's `certificate rotate` names them. Empty means all.
	// +nullable
	// +optional
	Services []string `json:"services,omitempty"`
}

// RotateEncryptionKeys asks for a new key that encrypts Secrets in etcd.
type RotateEncryptionKeys struct {
	// Generation is changed to start a rotation.
	// +optional
	Generation int64 `json:"generation,omitempty"`
}

// ETCDSnapshotPhase is how far the creation or the restore of a snapshot is.
type ETCDSnapshotPhase string

const (
	// ETCDSnapshotPhaseStarted is the first phase of both operations.
	ETCDSnapshotPhaseStarted ETCDSnapshotPhase = "Started"
	// ETCDSnapshotPhaseShutdown stops the whole cluster before a restore.
	ETCDSnapshotPhaseShutdown ETCDSnapshotPhase = "Shutdown"
	// ETCDSnapshotPhaseRestore puts the snapshot back on one machine.
	ETCDSnapshotPhaseRestore ETCDSnapshotPhase = "Restore"
	// ETCDSnapshotPhasePostRestorePodCleanup removes pods that the restored data believe to run.
	ETCDSnapshotPhasePostRestorePodCleanup ETCDSnapshotPhase = "PostRestorePodCleanup"
	// ETCDSnapshotPhaseInitialRestartCluster brings the machines up on the restored data.
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

// RotateEncryptionKeysPhase is how far a rotation of encryption keys is.
type RotateEncryptionKeysPhase string

const (
	// RotateEncryptionKeysPhasePrepare makes the new key.
	RotateEncryptionKeysPhasePrepare RotateEncryptionKeysPhase = "Prepare"
	// RotateEncryptionKeysPhasePostPrepareRestart restarts the servers so that all know the new key.
	RotateEncryptionKeysPhasePostPrepareRestart RotateEncryptionKeysPhase = "PostPrepareRestart"
	// RotateEncryptionKeysPhaseRotate makes the new key the one that encrypts.
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

// OperationState is how an operation stands.
type OperationState string

const (
	// OperationStateRunning is an operation that was started and has not ended.
	OperationStateRunning OperationState = "Running"
	// OperationStateSucceeded is an operation that did what was asked.
	OperationStateSucceeded OperationState = "Succeeded"
	// OperationStateFailed is an operation that ended before it had done what was asked.
	OperationStateFailed OperationState = "Failed"
	// OperationStateCancelled is an operation whose request was taken back while it ran.
	OperationStateCancelled OperationState = "Cancelled"
)

// OperationRecord is what Drover remembers of one kind of operation beside its phase. It stays when the request is gone.
type OperationRecord struct {
	// Name of the kind of operation.
	// +required
	Name string `json:"name"`

	// Attempt counts the starts. Nodes keep it with every command that succeeded, so it is never used twice.
	// +optional
	Attempt int64 `json:"attempt,omitempty"`

	// Request is what was asked for at the last start, as JSON.
	// +optional
	Request string `json:"request,omitempty"`

	// State is how the last start stands.
	// +optional
	// +kubebuilder:validation:Enum=Running;Succeeded;Failed;Cancelled
	State OperationState `json:"state,omitempty"`

	// Step is what is waited for, or was when the operation ended.
	// +optional
	Step string `json:"step,omitempty"`

	// StepStartedAt is when that began. An operation fails when one step takes too long.
	// +optional
	StepStartedAt *metav1.Time `json:"stepStartedAt,omitempty"`

	// Message says why the operation failed.
	// +optional
	Message string `json:"message,omitempty"`

	// Stopped is true from when a restore stops the cluster until etcd is restored. The machines have given up their data
	// then: started without a restore, they would begin an empty cluster.
	// +optional
	Stopped bool `json:"stopped,omitempty"`
}

package planner

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/equality"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// memory is the part of a control plane's status that cannot be rebuilt from other objects: which operations were done,
// and how often all nodes were configured again. Without it, an old request for a restore would count as new.
func memory(status *rkev1.RKEControlPlaneStatus) rkev1.RKEControlPlaneStatus {
	return rkev1.RKEControlPlaneStatus{
		ConfigGeneration:              status.ConfigGeneration,
		CertificateRotationGeneration: status.CertificateRotationGeneration,
		RotateEncryptionKeys:          status.RotateEncryptionKeys,
		RotateEncryptionKeysPhase:     status.RotateEncryptionKeysPhase,
		RotateEncryptionKeysLeader:    status.RotateEncryptionKeysLeader,
		ETCDSnapshotCreate:            status.ETCDSnapshotCreate,
		ETCDSnapshotCreatePhase:       status.ETCDSnapshotCreatePhase,
		ETCDSnapshotRestore:           status.ETCDSnapshotRestore,
		ETCDSnapshotRestorePhase:      status.ETCDSnapshotRestorePhase,
		Operations:                    status.Operations,
	}
}

// Memory is the text for rkev1.MemoryAnnotation, empty while there is nothing to remember. Tools that move or restore
// objects drop the status and keep annotations.
func Memory(status rkev1.RKEControlPlaneStatus) string {
	kept := memory(&status)
	if equality.Semantic.DeepEqual(kept, rkev1.RKEControlPlaneStatus{}) {
		return ""
	}
	text, err := json.Marshal(kept)
	if err != nil {
		return "" // values of these types can always be encoded
	}
	return string(text)
}

// EvidenceOfFormer is the evidence for a plan that replaces the plan of the given evidence. checksum is the checksum of
// the new plan. The result says that a Drover made the plan from unknown input, so the machine gets its desired plan.
// It is empty when the text is no evidence.
func EvidenceOfFormer(text, checksum string) string {
	var e evidence
	if json.Unmarshal([]byte(text), &e) != nil || e.Plan == "" {
		return ""
	}
	return evidence{}.about(checksum)
}

// Recall returns the status of a control plane, restored from its memory if the status was lost. A status that was ever
// written is used as it is.
func Recall(cp *rkev1.RKEControlPlane) rkev1.RKEControlPlaneStatus {
	text := cp.Annotations[rkev1.MemoryAnnotation]
	if text == "" || cp.Status.ObservedGeneration != 0 {
		return cp.Status
	}
	var kept rkev1.RKEControlPlaneStatus
	if json.Unmarshal([]byte(text), &kept) != nil {
		return cp.Status
	}
	return memory(&kept)
}

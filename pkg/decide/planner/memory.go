package planner

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/equality"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// memory is what a control plane's status holds that nobody can find out again by looking: which operations were done, and how often all
// nodes had to be configured anew. Without it a request for a restore that was done long ago would be a new one.
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

// Memory is the text for rkev1.MemoryAnnotation, empty while there is nothing to remember: tools that move or restore objects leave the
// status behind, and keep annotations.
func Memory(status rkev1.RKEControlPlaneStatus) string {
	kept := memory(&status)
	if equality.Semantic.DeepEqual(kept, rkev1.RKEControlPlaneStatus{}) {
		return ""
	}
	text, err := json.Marshal(kept)
	if err != nil {
		return "" // no value of these types fails to be encoded
	}
	return string(text)
}

// EvidenceOfFormer is the evidence for a plan that takes the place of the one that a text is about, by its checksum: a Drover has made it, and
// nothing is known of what it was made from, so that the machine gets the plan that it should have. It is empty when the text is none.
func EvidenceOfFormer(text, checksum string) string {
	var e evidence
	if json.Unmarshal([]byte(text), &e) != nil || e.Plan == "" {
		return ""
	}
	return evidence{}.about(checksum)
}

// Recall returns the status of a control plane, with what it remembers if the status itself was lost. A status that was ever written is
// believed as it is.
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

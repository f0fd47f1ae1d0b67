package admission

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/cloudcredential"
)

// checkCredentialKeys refuses a cloud credential with keys that its driver does not have, or without keys that the
// driver requires. Condition CloudCredentialValid of a Cluster says the same later. (docs/admission.md.)
func checkCredentialKeys(r Request, a *Answer) error {
	before, after, err := decodeBoth[corev1.Secret](r)
	if err != nil || !cloudcredential.Is(after) || after.DeletionTimestamp != nil ||
		r.Operation == Create && after.Annotations[rkev1.RestoredFromAnnotation] != "" {
		return err
	}
	driver := cloudcredential.DriverOf(after)
	var had []cloudcredential.Problem
	if before != nil {
		had = cloudcredential.Problems(before.Data, driver, r.Facts.CredentialSchema)
	}
	for _, problem := range cloudcredential.Problems(after.Data, driver, r.Facts.CredentialSchema) {
		if !slices.Contains(had, problem) {
			a.refuse(problem.Error())
		}
	}
	return nil
}

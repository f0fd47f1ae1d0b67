package backup

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner"
)

// pausedByRestore is the operation that pauses the CAPI Clusters. Drover removes the pause after it has adopted the
// cluster.
const pausedByRestore = "restore-of-backup"

// madeByRestore replaces the name of the releasing instance if no Drover managed the cluster.
const madeByRestore = "restore-of-backup"

// target returns the object of the backup as it is to be created.
func (r *restore) target(object *unstructured.Unstructured) *unstructured.Unstructured {
	out := object.DeepCopy()
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
		"deletionGracePeriodSeconds", "selfLink", "managedFields", "generateName"} {
		unstructured.RemoveNestedField(out.Object, "metadata", field)
	}
	out.SetOwnerReferences(r.owners(object))
	annotate(out, rkev1.RestoredFromAnnotation, r.id)
	switch kind := object.GroupVersionKind().GroupKind(); kind {
	case provisioningKind:
		release(out)
	case clusterv1.GroupVersion.WithKind("Cluster").GroupKind():
		if paused, _, _ := unstructured.NestedBool(object.Object, "spec", "paused"); !paused {
			annotate(out, rkev1.PausedByOperationAnnotation, pausedByRestore)
			_ = unstructured.SetNestedField(out.Object, true, "spec", "paused") // the API server validated spec
		}
	case clusterv1.GroupVersion.WithKind("Machine").GroupKind():
		if object.GetAnnotations()[rkev1.MachineUIDAnnotation] == "" {
			annotate(out, rkev1.MachineUIDAnnotation, string(object.GetUID()))
		}
	case schema.GroupKind{Group: "management.cattle.io", Kind: "NodeDriver"}:
		unstructured.RemoveNestedField(out.Object, "status") // a driver must be installed again here
	case schema.GroupKind{Kind: "ServiceAccount"}:
		unstructured.RemoveNestedField(out.Object, "secrets")
	case schema.GroupKind{Kind: kindSecret}:
		r.targetSecret(out)
	}
	return out
}

// release removes the cluster's mark. The original cluster may still be managed, and a Drover with the same name may
// run here. No Drover acts on the cluster until a user adopts it.
func release(cluster *unstructured.Unstructured) {
	annotations := maps.Clone(cluster.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	// Without this annotation, any Drover would take an unmarked cluster at once.
	annotations[rkev1.ReleasedByAnnotation] = cmp.Or(annotations[rkev1.InstanceAnnotation],
		annotations[rkev1.ReleasedByAnnotation], madeByRestore)
	delete(annotations, rkev1.InstanceAnnotation)
	delete(annotations, rkev1.BlockMoveAnnotation)
	cluster.SetAnnotations(annotations)
}

// targetSecret points an account's token to the current UID of the account, so that a machine can still introduce
// itself. It also removes unapplied plans from plan Secrets.
func (r *restore) targetSecret(secret *unstructured.Unstructured) {
	withhold(secret)
	if !accountToken(secret) {
		return
	}
	annotations := maps.Clone(secret.GetAnnotations())
	if account, ok := r.uids[types.UID(annotations[corev1.ServiceAccountUIDKey])]; ok {
		annotations[corev1.ServiceAccountUIDKey] = string(account)
	} else {
		delete(annotations, corev1.ServiceAccountUIDKey)
	}
	secret.SetAnnotations(annotations)
	unstructured.RemoveNestedField(secret.Object, "data", corev1.ServiceAccountRootCAKey)
}

// withhold replaces a delivered but unapplied plan in its Secret with the plan that was applied last. The effects of
// the unapplied plan may be different here. The adoption lists them, and the machine then gets the plan. A machine
// without an applied plan keeps its first plan. A machine that is returning to its applied plan keeps it too. withhold
// reports whether it changed the Secret.
func withhold(object *unstructured.Unstructured) bool {
	var secret corev1.Secret
	if into(object, &secret) != nil || secret.Type != rkev1.SecretTypeMachinePlan {
		return false
	}
	applied := secret.Data[nodeplan.KeyAppliedPlan]
	state, _ := nodeplan.Parse(secret.Name, secret.Data) // the readers of plans report malformed ones
	if len(applied) == 0 || !state.PlanExists || state.InSync || bytes.Equal(secret.Data[nodeplan.KeyPlan], applied) {
		return false
	}
	checksum := nodeplan.Checksum(applied)
	data, _, _ := unstructured.NestedMap(object.Object, "data") // withhold has read data above
	data[nodeplan.KeyPlan] = data[nodeplan.KeyAppliedPlan]
	data[nodeplan.KeyAppliedChecksum] = base64.StdEncoding.EncodeToString([]byte(checksum))
	delete(data, nodeplan.KeyPlanState)
	object.Object["data"] = data
	annotate(object, rkev1.PlanEvidenceAnnotation,
		planner.EvidenceOfFormer(secret.Annotations[rkev1.PlanEvidenceAnnotation], checksum))
	return true
}

// owners returns the owner references whose owners exist, with the current UIDs.
func (r *restore) owners(object *unstructured.Unstructured) []metav1.OwnerReference {
	owners := slices.Clone(object.GetOwnerReferences())
	owners = slices.DeleteFunc(owners, func(owner metav1.OwnerReference) bool { return r.uids[owner.UID] == "" })
	for i := range owners {
		owners[i].UID = r.uids[owners[i].UID]
	}
	return owners
}

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

// pausedByRestore is the operation that pauses Cluster API's clusters. Drover takes the pause back when it has adopted the cluster.
const pausedByRestore = "restore-of-backup"

// madeByRestore stands for the instance that let go of a cluster, where no Drover had it.
const madeByRestore = "restore-of-backup"

// target is an object of the backup as it is made.
func (r *restore) target(object *unstructured.Unstructured) *unstructured.Unstructured {
	out := object.DeepCopy()
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "managedFields", "generateName"} {
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
			_ = unstructured.SetNestedField(out.Object, true, "spec", "paused") // spec is a map, or the API server would not have taken it
		}
	case clusterv1.GroupVersion.WithKind("Machine").GroupKind():
		if object.GetAnnotations()[rkev1.MachineUIDAnnotation] == "" {
			annotate(out, rkev1.MachineUIDAnnotation, string(object.GetUID()))
		}
	case schema.GroupKind{Group: "management.cattle.io", Kind: "NodeDriver"}:
		unstructured.RemoveNestedField(out.Object, "status") // a driver is installed where it is used
	case schema.GroupKind{Kind: "ServiceAccount"}:
		unstructured.RemoveNestedField(out.Object, "secrets")
	case schema.GroupKind{Kind: kindSecret}:
		r.targetSecret(out)
	}
	return out
}

// release takes the mark off a cluster: where it comes from it may still be managed, and a Drover of the same name may run here. Nobody acts
// on it until somebody adopts it.
func release(cluster *unstructured.Unstructured) {
	annotations := maps.Clone(cluster.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	// Without the annotation a cluster that has no mark is taken by any Drover at once.
	annotations[rkev1.ReleasedByAnnotation] = cmp.Or(annotations[rkev1.InstanceAnnotation], annotations[rkev1.ReleasedByAnnotation], madeByRestore)
	delete(annotations, rkev1.InstanceAnnotation)
	delete(annotations, rkev1.BlockMoveAnnotation)
	cluster.SetAnnotations(annotations)
}

// targetSecret lets a token that a machine may still introduce itself with be good for the account that there is now, and takes out of plan
// secrets what nobody has asked for here.
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

// withhold takes a plan out of its secret that was delivered and not applied, and leaves the one that was applied last. Nobody has looked at what
// it does now: the adoption lists it, and the machine gets it then. A machine that has applied nothing keeps its first plan, and one that is back at the plan from
// before is on its way there. It reports whether there was something to take out.
func withhold(object *unstructured.Unstructured) bool {
	var secret corev1.Secret
	if into(object, &secret) != nil || secret.Type != rkev1.SecretTypeMachinePlan {
		return false
	}
	applied := secret.Data[nodeplan.KeyAppliedPlan]
	state, _ := nodeplan.Parse(secret.Name, secret.Data) // what is malformed is reported where plans are read
	if len(applied) == 0 || !state.PlanExists || state.InSync || bytes.Equal(secret.Data[nodeplan.KeyPlan], applied) {
		return false
	}
	checksum := nodeplan.Checksum(applied)
	data, _, _ := unstructured.NestedMap(object.Object, "data") // read as such above
	data[nodeplan.KeyPlan] = data[nodeplan.KeyAppliedPlan]
	data[nodeplan.KeyAppliedChecksum] = base64.StdEncoding.EncodeToString([]byte(checksum))
	delete(data, nodeplan.KeyPlanState)
	object.Object["data"] = data
	annotate(object, rkev1.PlanEvidenceAnnotation, planner.EvidenceOfFormer(secret.Annotations[rkev1.PlanEvidenceAnnotation], checksum))
	return true
}

// owners are those of the owners that are there, by the UIDs they have now.
func (r *restore) owners(object *unstructured.Unstructured) []metav1.OwnerReference {
	owners := slices.Clone(object.GetOwnerReferences())
	owners = slices.DeleteFunc(owners, func(owner metav1.OwnerReference) bool { return r.uids[owner.UID] == "" })
	for i := range owners {
		owners[i].UID = r.uids[owners[i].UID]
	}
	return owners
}

package clustersync

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// everyCluster stands for all clusters of a namespace.
const everyCluster = "*"

// clusterID stands for the name of the management cluster in the data of a source.
const clusterID = "{{clusterId}}"

// IsSource reports whether annotations request copies in clusters.
func IsSource(annotations map[string]string) bool {
	for _, key := range []string{provv1.SyncAnnotation, provv1.SyncBootstrapAnnotation} {
		if value := annotations[key]; value != "" && value != "false" {
			return true
		}
	}
	return false
}

// authorized returns NAMESPACE/NAME of the clusters that get a copy of an object. They are in the namespace of the
// object. A plain name, NAMESPACE/NAME and NAMESPACE/* are the forms of the annotation.
func authorized(source metav1.Object) []string {
	annotations := source.GetAnnotations()
	if !IsSource(annotations) {
		return nil
	}
	var keys []string
	for entry := range strings.SplitSeq(annotations[rkev1.AuthorizedObjectAnnotation], ",") {
		entry = strings.TrimSpace(entry)
		namespace, name, qualified := strings.Cut(entry, "/")
		if !qualified {
			namespace, name = source.GetNamespace(), entry
		}
		if namespace == source.GetNamespace() && name != "" && (qualified || name != everyCluster) {
			keys = append(keys, namespace+"/"+name)
		}
	}
	return keys
}

// problem is why a source has no correct copy in a cluster.
type problem struct {
	source object
	// text is a sentence for users, without data of the source.
	text string
}

// wanted is a copy that a cluster must have. If the source is unread, the copy stays as it is.
type wanted struct{ source, copied object }

// copies returns the copies that a cluster must have, and the sources that cannot be copied.
func (f *Facts) copies(now time.Time) (map[target]wanted, []problem) {
	all := map[target]wanted{}
	var problems []problem
	for _, source := range f.sources {
		at, why := f.target(source)
		if other, taken := all[at]; why == "" && taken {
			why = fmt.Sprintf("%s has the same target %s/%s in the cluster: set another name in annotation %s",
				other.source, at.namespace, at.name, provv1.SyncTargetNameAnnotation)
		}
		if why == "" {
			all[at] = wanted{source, f.copied(source, at, now)}
			why = source.unread
		}
		if why != "" {
			problems = append(problems, problem{source, why})
		}
	}
	return all, problems
}

// target returns where the copy of a source is. why is not empty if there can be none.
func (f *Facts) target(source object) (at target, why string) {
	at = target{source.kind, source.Annotations[provv1.SyncTargetNamespaceAnnotation],
		source.Annotations[provv1.SyncTargetNameAnnotation]}
	if at.namespace == "" {
		at.namespace = source.Namespace
	}
	if at.name == "" {
		at.name = source.Name
	}
	switch wrong := validation.IsDNS1123Subdomain(at.name); {
	case at.namespace != metav1.NamespaceSystem && at.namespace != source.Namespace:
		return at, fmt.Sprintf("annotation %s is %q: it must be %s, or empty for namespace %s",
			provv1.SyncTargetNamespaceAnnotation, at.namespace, metav1.NamespaceSystem, source.Namespace)
	case len(wrong) > 0:
		return at, fmt.Sprintf("annotation %s is %q: %s", provv1.SyncTargetNameAnnotation, at.name, wrong[0])
	case source.secretType == corev1.SecretTypeServiceAccountToken ||
		source.secretType == corev1.SecretTypeBootstrapToken:
		return at, fmt.Sprintf("a Secret of type %s is valid only in its own cluster: use type %s",
			source.secretType, corev1.SecretTypeOpaque)
	}
	return at, ""
}

// copied returns the copy of a source.
func (f *Facts) copied(source object, at target, now time.Time) object {
	made := object{
		ObjectMeta: &metav1.ObjectMeta{Namespace: at.namespace, Name: at.name,
			Labels: map[string]string{provv1.SyncedForLabel: f.id},
			Annotations: map[string]string{provv1.SyncedFromAnnotation: source.Namespace + "/" + source.Name,
				provv1.SyncedAtAnnotation: now.UTC().Format(time.RFC3339)},
		},
		kind: source.kind, secretType: source.secretType, data: source.data, text: map[string]string{},
	}
	if source.kind == kindSecret { // the binary data of a ConfigMap stay as they are
		made.data = map[string][]byte{}
		for key, value := range source.data {
			made.data[key] = bytes.ReplaceAll(value, []byte(clusterID), []byte(f.id))
		}
	}
	for key, value := range source.text {
		made.text[key] = strings.ReplaceAll(value, clusterID, f.id)
	}
	return made
}

// action is what happens to a copy.
type action int

const (
	keep action = iota
	update
	replace
	remove
)

// decide returns what happens to a copy that was found in the cluster. want is nil if the cluster must not have it.
// Kubernetes permits no change of the type of a Secret, or of immutable objects.
func decide(found object, want *wanted) action {
	switch {
	case want == nil:
		return remove
	case want.source.unread != "":
		return keep
	case found.equal(want.copied) && found.Annotations[provv1.SyncedFromAnnotation] ==
		want.copied.Annotations[provv1.SyncedFromAnnotation]:
		return keep
	case found.secretType != want.copied.secretType, found.immutable:
		return replace
	default:
		return update
	}
}

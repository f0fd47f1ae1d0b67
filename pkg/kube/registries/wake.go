package registries

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// ByReference is the name of the index of control planes by the objects they refer to; see [IndexKeys].
const ByReference = "drover.io/by-reference"

// IndexKeys are the keys under which a control plane is found by an object it refers to.
func IndexKeys(cp *rkev1.RKEControlPlane, settings render.Settings) []string {
	refs := render.References(cp.Namespace, &cp.Spec, settings)
	keys := make([]string, len(refs))
	for i, ref := range refs {
		keys[i] = IndexKey(ref.Kind, ref.Namespace, ref.Name)
	}
	return keys
}

// IndexKey is the key of one object in the index [ByReference].
func IndexKey(kind render.ObjectKind, namespace, name string) string {
	return string(kind) + "/" + namespace + "/" + name
}

// AuthorizedClusters names the clusters that an object lets use it as a source of files: they are in its namespace. The
// result is sorted and free of repetitions.
func AuthorizedClusters(object metav1.Object) []types.NamespacedName {
	var out []types.NamespacedName
	for name := range strings.SplitSeq(object.GetAnnotations()[rkev1.AuthorizedObjectAnnotation], ",") {
		if name = strings.TrimSpace(name); name != "" {
			out = append(out, types.NamespacedName{Namespace: object.GetNamespace(), Name: name})
		}
	}
	slices.SortFunc(out, func(a, b types.NamespacedName) int { return strings.Compare(a.Name, b.Name) })
	return slices.Compact(out)
}

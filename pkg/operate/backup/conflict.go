package backup

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// ConflictError says that objects of the backup exist and are others. Nothing was written.
type ConflictError struct {
	// Objects exist and say something else.
	Objects []string
	// Clusters exist and were not made from this backup, whatever they say: who a cluster is stands in its status.
	Clusters []string
	// Adopted are Clusters that were made from this backup, and that somebody has adopted since.
	Adopted []string
}

// Error implements error.
func (e *ConflictError) Error() string {
	var parts []string
	if len(e.Objects) > 0 {
		parts = append(parts, "these objects exist and are not those of the backup; a restore changes and deletes nothing, so remove or rename "+
			"them, or restore to another management cluster: "+listed(e.Objects))
	}
	if len(e.Clusters) > 0 {
		parts = append(parts, "these clusters exist and were not made from this backup, so that they would keep another identity than the one their agents "+
			"know; delete those that nothing depends on, and hold back what makes them again (Git, for example) until the restore is done, or restore "+
			"the clusters of other namespaces only (drover restore -n): "+listed(e.Clusters))
	}
	if len(e.Adopted) > 0 {
		parts = append(parts, "these clusters were restored from this backup and have been adopted since, and what was removed from them since would come "+
			"back; leave them as they are, and restore those of other namespaces only (drover restore -n): "+listed(e.Adopted))
	}
	return "nothing was restored: " + strings.Join(parts, "; ")
}

func (e *ConflictError) any() bool { return len(e.Objects)+len(e.Clusters)+len(e.Adopted) > 0 }

// listed are names, of many the first.
func listed(names []string) string {
	const most = 20
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// compare notes an object that exists, unless it may take the place of the one of the backup.
func (r *restore) compare(object, found *unstructured.Unstructured, conflicts *ConflictError) {
	ours := found.GetAnnotations()[rkev1.RestoredFromAnnotation] == r.id
	if object.GroupVersionKind().GroupKind() == provisioningKind {
		switch {
		case !ours:
			conflicts.Clusters = append(conflicts.Clusters, describe(object))
		case r.adopted(object, found):
			conflicts.Adopted = append(conflicts.Adopted, describe(object))
		}
		return
	}
	if !ours && !shared(object) && !equality.Semantic.DeepEqual(content(r.target(object)), content(found)) {
		conflicts.Objects = append(conflicts.Objects, describe(object))
	}
}

// adopted reports that somebody has adopted a Cluster that was made from this backup. Who lets go of it again leaves another name on it, unless it is
// that of the Drover before.
func (r *restore) adopted(object, found *unstructured.Unstructured) bool {
	return found.GetAnnotations()[rkev1.ReleasedByAnnotation] != r.target(object).GetAnnotations()[rkev1.ReleasedByAnnotation]
}

// shared are kinds of which every Drover has its own, and uses what is there.
func shared(object *unstructured.Unstructured) bool {
	switch object.GetKind() {
	case kindCRD, "Namespace", "NodeDriver", "DynamicSchema":
		return true
	}
	return false
}

// content is what an object says, without who it is and how it fares.
func content(object *unstructured.Unstructured) map[string]any {
	out := map[string]any{}
	for key, value := range object.Object {
		if key != "metadata" && key != "status" && key != "apiVersion" {
			out[key] = value
		}
	}
	return out
}

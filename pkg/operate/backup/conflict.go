package backup

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// ConflictError lists objects that exist and differ from the backup's. Nothing was written.
type ConflictError struct {
	// Objects exist with other content.
	Objects []string
	// Clusters exist and were not made from this backup. Their content does not matter, because the identity of a
	// cluster is in its status.
	Clusters []string
	// Adopted are Clusters that were made from this backup and have been adopted since.
	Adopted []string
}

// Error implements error.
func (e *ConflictError) Error() string {
	var parts []string
	if len(e.Objects) > 0 {
		parts = append(parts,
			"these objects exist with other content than in the backup, and a restore changes and deletes nothing: "+
				"delete or rename "+
				"them, or restore to another management cluster: "+listed(e.Objects))
	}
	if len(e.Clusters) > 0 {
		parts = append(parts,
			"these clusters exist and were not restored from this backup, so they would keep an identity that their "+
				"agents do not "+
				"know; delete those that are not in use, and stop the program that creates them (GitOps, for "+
				"example) until the restore is done, or restore "+
				"only the clusters of other namespaces (drover restore -n): "+listed(e.Clusters))
	}
	if len(e.Adopted) > 0 {
		parts = append(parts,
			"these clusters were restored from this backup and have been adopted since, so a restore would bring "+
				"deleted objects "+
				"back; keep them as they are, and restore only the clusters of other namespaces (drover restore -n): "+
				listed(e.Adopted))
	}
	return "nothing was restored: " + strings.Join(parts, "; ")
}

func (e *ConflictError) any() bool { return len(e.Objects)+len(e.Clusters)+len(e.Adopted) > 0 }

// listed joins names. It shortens a long list to its first names.
func listed(names []string) string {
	const most = 20
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// compare records an existing object as a conflict, unless it can serve as the backup's object.
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

// adopted reports whether a Cluster that was made from this backup has been adopted since. A later release writes the
// releasing instance's name into the annotation. That name differs from the original, unless both instances have the
// same name.
func (r *restore) adopted(object, found *unstructured.Unstructured) bool {
	return found.GetAnnotations()[rkev1.ReleasedByAnnotation] !=
		r.target(object).GetAnnotations()[rkev1.ReleasedByAnnotation]
}

// shared reports whether the object's kind exists once for every Drover. A restore uses the existing object.
func shared(object *unstructured.Unstructured) bool {
	switch object.GetKind() {
	case kindCRD, "Namespace", "NodeDriver", "DynamicSchema", "PodSecurityAdmissionConfigurationTemplate":
		return true
	}
	return false
}

// content returns an object without its metadata and status.
func content(object *unstructured.Unstructured) map[string]any {
	out := map[string]any{}
	for key, value := range object.Object {
		if key != "metadata" && key != "status" && key != "apiVersion" {
			out[key] = value
		}
	}
	return out
}

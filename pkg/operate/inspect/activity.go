package inspect

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// Activity is a write that only a manager of a cluster makes.
type Activity struct {
	// Writer is the field manager. What is the object and the part of it.
	Writer string      `json:"writer"`
	What   string      `json:"what"`
	At     metav1.Time `json:"at"`
}

// droverWriter is Drover's field manager. A restore of a backup uses it too.
const droverWriter = "drover"

// lastWords is how long a manager can continue to write after it created an object or released a cluster.
const lastWords = 10 * time.Second

// lastActivity returns the newest write of a manager: to the Cluster's status, or to the control plane. Owner
// references of the control plane do not count, because Cluster API writes them. For a released cluster, writes before
// the release do not count. Writes that create an object do not count either, because a move or restore makes them. No
// Drover manages a cluster without its mark.
func lastActivity(cluster *provv1.Cluster, controlPlane *rkev1.RKEControlPlane, released bool) *Activity {
	var last *Activity
	look := func(what string, object metav1.Object, counts func(metav1.ManagedFieldsEntry) bool) {
		for _, entry := range object.GetManagedFields() {
			if entry.Time == nil || !counts(entry) || last != nil && !entry.Time.After(last.At.Time) {
				continue
			}
			if released && belongsToRelease(cluster, object, entry) {
				continue
			}
			last = &Activity{Writer: entry.Manager, What: what, At: *entry.Time}
		}
	}
	look("status of the Cluster", cluster, func(e metav1.ManagedFieldsEntry) bool { return e.Subresource == "status" })
	if controlPlane == nil {
		return last // imported
	}
	look("the RKEControlPlane", controlPlane, func(e metav1.ManagedFieldsEntry) bool {
		return e.Subresource == "status" || e.FieldsV1 != nil && strings.Contains(e.FieldsV1.GetRawString(), `"f:spec"`)
	})
	return last
}

// belongsToRelease reports whether a write says nothing about the current manager of a released cluster.
func belongsToRelease(cluster *provv1.Cluster, object metav1.Object, entry metav1.ManagedFieldsEntry) bool {
	if object.GetAnnotations()[rkev1.RestoredFromAnnotation] != "" && entry.Manager == droverWriter {
		return true // an interrupted restore that continued later
	}
	until := object.GetCreationTimestamp().Time
	for _, wrote := range cluster.ManagedFields {
		if wrote.Time != nil && wrote.Time.After(until) && wrote.FieldsV1 != nil &&
			strings.Contains(wrote.FieldsV1.GetRawString(), `"f:`+rkev1.ReleasedByAnnotation+`"`) {
			until = wrote.Time.Time
		}
	}
	return !entry.Time.After(until.Add(lastWords))
}

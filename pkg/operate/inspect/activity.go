package inspect

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// Activity is a write that only a manager of a cluster does.
type Activity struct {
	// Writer is the name by which the API server knows who wrote, What the object and its part.
	Writer string      `json:"writer"`
	What   string      `json:"what"`
	At     metav1.Time `json:"at"`
}

// droverWriter is the name by which the API server knows a Drover, also when it restores a backup.
const droverWriter = "drover"

// lastWords is for how long whoever made an object, or let go of a cluster, goes on writing what belongs to that.
const lastWords = 10 * time.Second

// lastActivity is the newest write of a manager: to the status of the Cluster, and to the control plane, if it has one, other than its owner
// references, which are Cluster API's. Of a cluster that was released, what was written until then does not count, nor how it came here: objects that were just made
// were moved or restored, and no Drover manages a cluster without its mark.
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
		return last // it was imported
	}
	look("the RKEControlPlane", controlPlane, func(e metav1.ManagedFieldsEntry) bool {
		return e.Subresource == "status" || e.FieldsV1 != nil && strings.Contains(e.FieldsV1.GetRawString(), `"f:spec"`)
	})
	return last
}

// belongsToRelease reports a write that says nothing about who manages a released cluster now.
func belongsToRelease(cluster *provv1.Cluster, object metav1.Object, entry metav1.ManagedFieldsEntry) bool {
	if object.GetAnnotations()[rkev1.RestoredFromAnnotation] != "" && entry.Manager == droverWriter {
		return true // a restore that was broken off and went on later
	}
	until := object.GetCreationTimestamp().Time
	for _, wrote := range cluster.ManagedFields {
		if wrote.Time != nil && wrote.Time.After(until) && wrote.FieldsV1 != nil && strings.Contains(wrote.FieldsV1.GetRawString(), `"f:`+rkev1.ReleasedByAnnotation+`"`) {
			until = wrote.Time.Time
		}
	}
	return !entry.Time.After(until.Add(lastWords))
}

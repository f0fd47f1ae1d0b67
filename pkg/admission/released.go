package admission

import (
	"fmt"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// Trust is whether a user may bring Clusters from another management cluster with their history. That requires the
// right to create clusters.management.cattle.io, which policy drover-management-name requires as well.
type Trust int

const (
	// TrustUnknown means that the API server was not asked, or did not answer.
	TrustUnknown Trust = iota
	// Trusted users may bring a released Cluster with its recorded history.
	Trusted
	// Untrusted users may not.
	Untrusted
)

// Released reports whether the request creates a Cluster that another Drover has released, as a restore or a move does.
// Drover does not act on it until it is adopted, and its mistakes are old ones. before is nil for a new Cluster.
func Released(before, after *provv1.Cluster) bool {
	return before == nil && after.Annotations[rkev1.ReleasedByAnnotation] != "" &&
		after.Annotations[rkev1.InstanceAnnotation] == ""
}

// TrustMatters reports whether Complete needs to know if the user is trusted. It is false for an unreadable object.
func TrustMatters(r Request) bool {
	if r.Resource != clusters || r.Subresource != "" || r.Operation != Create {
		return false
	}
	after, err := decode[provv1.Cluster](r.New)
	return err == nil && after != nil && ours(r.Facts, nil, after) && Released(nil, after) && creatorDiffers(r, after)
}

// creatorDiffers reports whether a Cluster should have a creator and names another user, or none.
func creatorDiffers(r Request, cluster *provv1.Cluster) bool {
	_, hasNoCreator := cluster.Annotations[provv1.NoCreatorRBACAnnotation]
	return !hasNoCreator && cluster.Annotations[provv1.CreatorIDAnnotation] != r.User.Username
}

// mayKeepCreator reports whether the creator in a released Cluster stands. It does if the user is trusted.
func mayKeepCreator(r Request, cluster *provv1.Cluster, a *Answer) bool {
	if !Released(nil, cluster) {
		return false
	}
	if r.Facts.Trust == TrustUnknown {
		a.warn(fmt.Sprintf("metadata.annotations[%s]: Drover could not check whether %s may create "+
			"clusters.management.cattle.io, so the value is %s now: "+
			"to keep the original value, delete the Cluster and create it again",
			provv1.CreatorIDAnnotation, r.User.Username, r.User.Username))
	}
	return r.Facts.Trust == Trusted
}

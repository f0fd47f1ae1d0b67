package admission

import (
	"fmt"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// Trust says whether somebody may bring Clusters from another management cluster as they were there: who may create clusters.management.cattle.io.
// It is the right that policy drover-management-name asks for.
type Trust int

const (
	// TrustUnknown is the answer when nobody was asked, or nobody answered.
	TrustUnknown Trust = iota
	// Trusted lets what a released Cluster says of its past stand.
	Trusted
	// Untrusted is everybody else.
	Untrusted
)

// Released reports that a Cluster is made that another Drover has let go of: a restore or a move brings it. Nothing acts on it until somebody adopts
// it, and what is wrong with it was so where it lived. before is nil for a new Cluster.
func Released(before, after *provv1.Cluster) bool {
	return before == nil && after.Annotations[rkev1.ReleasedByAnnotation] != "" && after.Annotations[rkev1.InstanceAnnotation] == ""
}

// TrustMatters reports that Complete has to know whether the user is trusted. What cannot be read matters to nobody.
func TrustMatters(r Request) bool {
	if r.Resource != clusters || r.Subresource != "" || r.Operation != Create {
		return false
	}
	after, err := decode[provv1.Cluster](r.New)
	return err == nil && after != nil && ours(r.Facts, nil, after) && Released(nil, after) && creatorDiffers(r, after)
}

// creatorDiffers reports that a Cluster names somebody else as who made it, or nobody.
func creatorDiffers(r Request, cluster *provv1.Cluster) bool {
	_, nobody := cluster.Annotations[noCreator]
	return !nobody && cluster.Annotations[provv1.CreatorIDAnnotation] != r.User.Username
}

// keepsCreator reports that who made a Cluster is known from where it comes.
func keepsCreator(r Request, cluster *provv1.Cluster, a *Answer) bool {
	if !Released(nil, cluster) {
		return false
	}
	if r.Facts.Trust == TrustUnknown {
		a.warn(fmt.Sprintf("metadata.annotations[%s]: whether %s may create clusters.management.cattle.io could not be found out, so it says %s now, and not what it "+
			"said elsewhere: delete the Cluster and bring it again where that matters", provv1.CreatorIDAnnotation, r.User.Username, r.User.Username))
	}
	return r.Facts.Trust == Trusted
}

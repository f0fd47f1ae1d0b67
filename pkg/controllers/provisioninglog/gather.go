package provisioninglog

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/kube/ownwrites"
)

// Facts are the input of a decision.
type Facts struct {
	// Namespace is that of the management cluster, empty until it is known.
	Namespace string
	// Status is the status of the Cluster.
	Status provv1.ClusterStatus
	// Log is the ConfigMap. Nil when it does not exist.
	Log *corev1.ConfigMap
	Now time.Time
}

// gather reads caches only. It returns false while the cache is behind an earlier write of this controller.
func (h *handler) gather(cluster *provv1.Cluster) (Facts, bool, error) {
	f := Facts{Namespace: cluster.Status.ClusterName, Status: cluster.Status, Now: h.Now()}
	if f.Namespace == "" {
		return f, false, nil
	}
	log, err := clients.Optional(h.configMaps.Get(f.Namespace, provv1.ProvisioningLogName))
	if err != nil {
		return f, false, fmt.Errorf("read the provisioning log of %s: %w", f.Namespace, err)
	}
	left := time.Duration(0)
	switch {
	case log == nil:
		left = h.written.Left(f.Namespace, f.Now)
	case h.written.Behind(log, f.Now):
		left = ownwrites.BelievedAfter
	default:
		h.written.Shown(f.Namespace)
	}
	if left > 0 {
		h.Clusters.EnqueueAfter(cluster.Namespace, cluster.Name, left)
		return f, false, nil
	}
	f.Log = log
	return f, true, nil
}

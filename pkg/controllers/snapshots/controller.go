package snapshots

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	capicontrollers "github.com/drover-io/drover/pkg/generated/controllers/cluster.x-k8s.io/v1beta2"
	provcontrollers "github.com/drover-io/drover/pkg/generated/controllers/provisioning.cattle.io/v1"
	rkecontrollers "github.com/drover-io/drover/pkg/generated/controllers/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/planstore"
	"github.com/drover-io/drover/pkg/reach/proxy"
)

// Hosts persist handlerName in metrics, do not change.
const handlerName = "etcd-snapshots"

// indexSnapshots finds ETCDSnapshots by NAMESPACE/NAME of their cluster.
const indexSnapshots = "etcd-snapshots-by-cluster"

// Deps holds the controller's dependencies and settings.
type Deps struct {
	ControlPlanes rkecontrollers.RKEControlPlaneController
	Snapshots     rkecontrollers.ETCDSnapshotController
	Clusters      provcontrollers.ClusterController
	CAPIClusters  capicontrollers.ClusterController
	Machines      capicontrollers.MachineController
	Downstream    proxy.ClientGetter
	// InstanceID marks the Clusters of this instance.
	InstanceID string
	// Log reports clusters that do not answer; nil means the standard logger.
	Log logrus.FieldLogger
	// Now is the clock; nil means the system's.
	Now func() time.Time
}

type handler struct {
	Deps
	controlPlanes rkecontrollers.RKEControlPlaneCache
	snapshots     rkecontrollers.ETCDSnapshotCache
	clusters      provcontrollers.ClusterCache
	capiClusters  capicontrollers.ClusterCache
	machines      capicontrollers.MachineCache
	followers     *followers
	// healthy limits concurrent polls of clusters that answered last time, and failing those of all others.
	healthy, failing chan struct{}
}

// Register adds the handler and its indexes. Everything it starts ends with ctx.
func Register(ctx context.Context, d Deps) error {
	if d.Log == nil {
		d.Log = logrus.StandardLogger()
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	h := &handler{
		Deps: d, controlPlanes: d.ControlPlanes.Cache(), snapshots: d.Snapshots.Cache(), clusters: d.Clusters.Cache(),
		capiClusters: d.CAPIClusters.Cache(),
		machines:     d.Machines.Cache(), healthy: make(chan struct{}, atOnce), failing: make(chan struct{}, failing),
	}
	h.followers = &followers{ctx: ctx, look: h.look, log: d.Log, now: d.Now, of: map[types.NamespacedName]*follower{}}
	h.machines.AddIndexer(planstore.ByCluster, planstore.IndexByCluster)
	h.snapshots.AddIndexer(indexSnapshots, func(s *rkev1.ETCDSnapshot) ([]string, error) {
		return []string{s.Namespace + "/" + s.Labels[rkev1.ClusterNameLabel]}, nil
	})
	d.ControlPlanes.OnChange(ctx, handlerName, h.onChange)
	return nil
}

// onChange only selects the clusters to poll. Work that depends on a cluster's answers must not block the shared work
// queue.
func (h *handler) onChange(key string, cp *rkev1.RKEControlPlane) (*rkev1.RKEControlPlane, error) {
	if cp == nil || cp.DeletionTimestamp != nil {
		namespace, name, _ := strings.Cut(key, "/")
		h.followers.leave(types.NamespacedName{Namespace: namespace, Name: name})
		return cp, nil
	}
	h.followers.follow(types.NamespacedName{Namespace: cp.Namespace, Name: cp.Name}, markOf(cp))
	return cp, nil
}

// markOf returns a value that changes when an operation may have changed the list of snapshots.
func markOf(cp *rkev1.RKEControlPlane) string {
	mark := fmt.Sprintf("%t/%s/%s", cp.Status.Initialized, cp.Status.ETCDSnapshotCreatePhase,
		cp.Status.ETCDSnapshotRestorePhase)
	if create := cp.Status.ETCDSnapshotCreate; create != nil {
		mark += fmt.Sprintf("/%d", create.Generation)
	}
	if restore := cp.Status.ETCDSnapshotRestore; restore != nil {
		mark += fmt.Sprintf("/%s/%d", restore.Name, restore.Generation)
	}
	return mark
}

package snapshots

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/snapshots"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/planstore"
)

// gather reads caches only. ok is false while Drover must not write. known is a hash of what it read.
func (h *handler) gather(name types.NamespacedName) (in snapshots.Input, known [sha256.Size]byte, ok bool, err error) {
	if ok, err = h.mayAct(name); err != nil || !ok {
		return in, known, false, err
	}
	cluster, err := h.clusters.Get(name.Namespace, name.Name)
	if err != nil {
		return in, known, false, fmt.Errorf("read Cluster %s: %w", name, err)
	}
	in.Cluster = snapshots.Cluster{Namespace: name.Namespace, Name: name.Name, UID: cluster.UID}
	machines, err := planstore.MachinesOf(h.machines, name.Namespace, name.Name)
	if err != nil {
		return in, known, false, err
	}
	in.Machines = byNode(machines)
	in.Have, err = h.snapshots.GetByIndex(indexSnapshots, name.String())
	if err != nil {
		return in, known, false, fmt.Errorf("read ETCDSnapshots of %s: %w", name, err)
	}
	versions := []string{string(cluster.UID)}
	for node, m := range in.Machines {
		versions = append(versions, node+"="+m.Name+"/"+string(m.UID))
	}
	for _, s := range in.Have {
		versions = append(versions, s.Name+"@"+s.ResourceVersion)
	}
	slices.Sort(versions)
	return in, sha256.Sum256([]byte(strings.Join(versions, "\n"))), true, nil
}

// byNode returns Machines by the names of their nodes. If two Machines have one node, a Machine that is not being
// deleted wins, then the younger.
func byNode(machines []*clusterv1.Machine) map[string]snapshots.Machine {
	out := map[string]snapshots.Machine{}
	for _, m := range slices.SortedFunc(slices.Values(machines), func(a, b *clusterv1.Machine) int {
		if goes := a.DeletionTimestamp != nil; goes != (b.DeletionTimestamp != nil) {
			return map[bool]int{true: -1, false: 1}[goes]
		}
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	}) {
		if node := m.Status.NodeRef.Name; node != "" {
			out[node] = snapshots.Machine{Name: m.Name, UID: m.UID}
		}
	}
	return out
}

// mayAct returns false for clusters of other instances, without an API server, or that are deleted, paused or being
// restored. A requested restore needs the snapshot that it names.
func (h *handler) mayAct(name types.NamespacedName) (bool, error) {
	cluster, err := h.clusters.Get(name.Namespace, name.Name)
	if err != nil {
		return false, unlessGone(err, "Cluster", name)
	}
	cp, err := h.controlPlanes.Get(name.Namespace, name.Name)
	if err != nil {
		return false, unlessGone(err, "RKEControlPlane", name)
	}
	capi, err := h.capiClusters.Get(name.Namespace, name.Name)
	if err != nil {
		return false, unlessGone(err, "Cluster API's Cluster", name)
	}
	if cluster.DeletionTimestamp != nil || cp.DeletionTimestamp != nil || !topology.IsOurs(cluster, h.InstanceID) {
		return false, nil
	}
	return cp.Status.Initialized && !topology.IsPaused(capi, cp) && !restores(cluster, cp), nil
}

func unlessGone(err error, kind string, name types.NamespacedName) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("read %s %s: %w", kind, name, err)
}

// restores reports that a restore is requested or in progress, or has left machines stopped.
func restores(cluster *provv1.Cluster, cp *rkev1.RKEControlPlane) bool {
	asked := []*rkev1.ETCDSnapshotRestore{cp.Spec.ETCDSnapshotRestore}
	if cluster.Spec.RKEConfig != nil {
		asked = append(asked, cluster.Spec.RKEConfig.ETCDSnapshotRestore)
	}
	return planner.Restoring(cp) || slices.ContainsFunc(asked, func(asked *rkev1.ETCDSnapshotRestore) bool {
		return asked != nil && asked.Name != "" && !equality.Semantic.DeepEqual(asked, cp.Status.ETCDSnapshotRestore)
	})
}

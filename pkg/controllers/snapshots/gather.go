package snapshots

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/planner"
	"github.com/drover-io/drover/pkg/snapshots"
	"github.com/drover-io/drover/pkg/topology"
)

// settled is what a cluster's objects were made from when there was nothing left to do: versions on both sides.
type settled struct{ listed, known string }

// gather reads caches only. It is false while nothing may be changed.
func (h *handler) gather(name types.NamespacedName) (in snapshots.Input, known string, ok bool, err error) {
	if ok, err = h.mayAct(name); err != nil || !ok {
		return in, "", false, err
	}
	cluster, err := h.clusters.Get(name.Namespace, name.Name)
	if err != nil {
		return in, "", false, fmt.Errorf("read Cluster %s: %w", name, err)
	}
	in = snapshots.Input{
		Cluster:  snapshots.Cluster{Namespace: name.Namespace, Name: name.Name, UID: cluster.UID},
		Machines: map[string]snapshots.Machine{},
	}
	machines, err := h.machines.GetByIndex(indexMachines, name.String())
	if err != nil {
		return in, "", false, fmt.Errorf("read Machines of %s: %w", name, err)
	}
	versions := []string{string(cluster.UID)}
	for _, m := range machines {
		if node := m.Status.NodeRef.Name; node != "" {
			in.Machines[node] = snapshots.Machine{Name: m.Name, UID: m.UID}
			versions = append(versions, node+"="+string(m.UID))
		}
	}
	in.Have, err = h.snapshots.GetByIndex(indexSnapshots, name.String())
	if err != nil {
		return in, "", false, fmt.Errorf("read ETCDSnapshots of %s: %w", name, err)
	}
	for _, s := range in.Have {
		versions = append(versions, s.Name+"@"+s.ResourceVersion)
	}
	slices.Sort(versions)
	return in, strings.Join(versions, "\n"), true, nil
}

// mayAct is false for clusters of others, for those that have no API server yet, and for those that are deleted, paused or being restored. While a
// restore is asked for, what it names has to stay.
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
	if cluster.DeletionTimestamp != nil || cp.DeletionTimestamp != nil || topology.Owner(cluster, h.InstanceID, true) != topology.Ours {
		return false, nil
	}
	_, paused := cp.Annotations[clusterv1.PausedAnnotation]
	paused = paused || capi.Spec.Paused != nil && *capi.Spec.Paused
	return cp.Status.Initialized && !paused && !restores(cp), nil
}

func unlessGone(err error, kind string, name types.NamespacedName) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("read %s %s: %w", kind, name, err)
}

// restores reports that a restore is asked for or at work, or has left machines stopped.
func restores(cp *rkev1.RKEControlPlane) bool {
	asked := cp.Spec.ETCDSnapshotRestore
	return planner.Restoring(cp) || asked != nil && asked.Name != "" && !equality.Semantic.DeepEqual(asked, cp.Status.ETCDSnapshotRestore)
}

func cutKey(key string) (namespace, name string, ok bool) { return strings.Cut(key, "/") }

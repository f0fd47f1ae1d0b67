package provisioningcluster

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/outcome"
	"github.com/drover-io/drover/pkg/decide/restoredspec"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/kube/wakeup"
)

// A restore may put the configuration of its snapshot back into the Cluster. Everything else is gathered and judged for
// the Cluster with that configuration, before anything is written. If it is not valid, nothing changes. Otherwise one
// patch restores the fields, and the same pass gives the RKEControlPlane the request and the configuration in one
// write. After that the request counts as done here, so a tool that sets the fields back is never overruled twice.

// gatherRestored adds the configuration of a snapshot to the cluster that is judged, if a new request asks for it.
func (h *handler) gatherRestored(facts *Facts) error {
	request := restoredspec.Pending(facts.stored, facts.controlPlane)
	if request == nil {
		return nil
	}
	snapshot, err := clients.Optional(h.snapshots.Get(facts.stored.Namespace, request.Name))
	if err != nil {
		return fmt.Errorf("read etcd snapshot %s/%s: %w", facts.stored.Namespace, request.Name, err)
	}
	facts.restored, facts.unrestorable = restoredspec.Restore(facts.stored, snapshot)
	facts.input.Cluster = facts.restored.Cluster
	return nil
}

// newlyTolerated returns the tolerated problems that the configuration of a snapshot would add. A running cluster keeps
// its own, and admission refuses new ones.
func (f *Facts) newlyTolerated(told field.ErrorList) field.ErrorList {
	if len(f.restored.Changes) == 0 || len(told) == 0 {
		return nil
	}
	stored := f.input
	stored.Cluster = f.stored
	_, known := Problems(stored, true)
	added, _ := topology.News(topology.Wrong{Cluster: f.stored, Errors: known},
		topology.Wrong{Cluster: f.input.Cluster, Errors: told})
	return added
}

// refused is the end of a pass over a spec with problems. It says if they come from a snapshot.
func (f *Facts) refused(reason string, problems field.ErrorList) error {
	text := topology.Explain(problems)
	if request := restoredspec.Wanted(f.stored); len(f.restored.Changes) > 0 && request != nil {
		text = fmt.Sprintf("spec.rkeConfig.etcdSnapshotRestore.name: the spec would be wrong with the configuration "+
			"of snapshot %s; %s: %s", request.Name, restoredspec.Remedy, text)
	}
	return outcome.Stall(reason, text)
}

// putBack writes the configuration of a snapshot into the Cluster. It returns why the API server does not accept it.
func (h *handler) putBack(facts *Facts) (refused, err error) {
	patch, err := facts.restored.Patch()
	if err != nil || patch == nil {
		return nil, err
	}
	cluster := facts.stored
	updated, err := h.Clusters.Patch(cluster.Namespace, cluster.Name, types.JSONPatchType, patch)
	switch {
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err):
		return outcome.Stall(reasonInvalid, "spec.rkeConfig.etcdSnapshotRestore: the configuration of the snapshot "+
			"was refused; "+restoredspec.Remedy+": "+err.Error()), nil
	case err != nil:
		return nil, fmt.Errorf("restore configuration of cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	h.Statuses.Replaced(cluster, updated, h.Now())
	facts.stored, facts.input.Cluster = updated, updated
	return nil, nil
}

// indexBySnapshot finds Clusters by the snapshots whose configuration they request, as NAMESPACE/NAME.
const indexBySnapshot = "drover-by-restored-snapshot"

func bySnapshot(cluster *provv1.Cluster) ([]string, error) {
	if request := restoredspec.Wanted(cluster); request != nil {
		return []string{cluster.Namespace + "/" + request.Name}, nil
	}
	return nil, nil
}

// ofSnapshot wakes the clusters that wait for a snapshot to restore its configuration.
func (h *handler) ofSnapshot(snapshot *rkev1.ETCDSnapshot) []wakeup.Key {
	keys := wakeup.Found(h.clusters, indexBySnapshot, snapshot.Namespace+"/"+snapshot.Name)
	return slices.DeleteFunc(keys, func(key wakeup.Key) bool {
		cluster, err := h.clusters.Get(key.Namespace, key.Name)
		if err != nil {
			return false
		}
		plane, err := clients.Optional(h.controlPlanes.Get(key.Namespace, key.Name))
		return err == nil && restoredspec.Pending(cluster, plane) == nil
	})
}

package fleetcluster

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/pkg/decide/fleet"
	"github.com/drover-io/drover/pkg/kube/applyset"
)

// act creates or updates the Fleet Cluster, and returns the problem that the condition shows.
func (h *handler) act(facts *Facts, decided decision) error {
	if decided.step == keep {
		return decided.end
	}
	cluster := facts.cluster
	wanted, err := fleet.Cluster(cluster, facts.management)
	if err != nil {
		return err
	}
	if decided.step == create {
		if err := applyset.Mark(wanted, handlerName, clusterKind, cluster.Namespace, cluster.Name); err != nil {
			return err
		}
		// The event of the new object requeues the Cluster. It then becomes a part of the set.
		_, err = h.Kinds.Create(h.ctx, wanted)
	} else {
		_, err = h.Apply.Apply(h.ctx, handlerName, cluster, applyset.NoOwnerRef,
			[]schema.GroupVersionKind{fleet.ClusterKind}, []runtime.Object{wanted})
	}
	foreign, isForeign := errors.AsType[*applyset.ForeignError](err)
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil // the cache is behind, and its event requeues the Cluster
	case isForeign && len(foreign.Objects) > 0:
		return facts.taken()
	case err != nil:
		return fmt.Errorf("write Fleet Cluster %s/%s: %w", wanted.GetNamespace(), wanted.GetName(), err)
	}
	return nil
}

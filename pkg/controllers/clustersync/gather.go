package clustersync

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/kube/clients"
)

// Facts are the cached facts about a cluster.
type Facts struct {
	cluster types.NamespacedName
	// id is the name of the management cluster.
	id string
	// reachable means that the cluster has, or had, a connection.
	reachable bool
	// sources are the objects to copy, sorted by kind and name.
	sources []object
}

// version changes with the sources.
func (f *Facts) version() string {
	parts := []string{f.id}
	for _, source := range f.sources {
		parts = append(parts, source.kind+"/"+source.Name+"/"+string(source.UID)+"/"+source.ResourceVersion)
	}
	return strings.Join(parts, "\n")
}

func (h *handler) gather(cluster *provv1.Cluster) (*Facts, error) {
	facts := &Facts{cluster: types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name},
		id: cluster.Status.ClusterName}
	management, err := clients.Optional(h.management.Get(facts.id))
	if err != nil {
		return nil, fmt.Errorf("read management cluster %s: %w", facts.id, err)
	}
	facts.reachable = h.Tunnel != nil && h.Tunnel.Connected(facts.id) || management != nil &&
		conditions.IsTrue(management.Status.Conditions, mgmtv3.ClusterConditionConnected)
	for _, key := range []string{facts.cluster.String(), facts.cluster.Namespace + "/" + everyCluster} {
		secrets, err := h.secrets.GetByIndex(indexSources, key)
		if err != nil {
			return nil, fmt.Errorf("read the Secrets for cluster %s: %w", facts.cluster, err)
		}
		configMaps, err := h.configMaps.GetByIndex(indexSources, key)
		if err != nil {
			return nil, fmt.Errorf("read the ConfigMaps for cluster %s: %w", facts.cluster, err)
		}
		for _, secret := range secrets {
			source := ofSecret(secret)
			if _, err := h.secrets.Get(secret.Namespace, secret.Name); err != nil {
				dropped, isDropped := errors.AsType[*clients.SecretDroppedError](err)
				if !isDropped {
					return nil, fmt.Errorf("read %s: %w", source, err)
				}
				source.unread = "the Secret " + dropped.Reason
			}
			facts.sources = append(facts.sources, source)
		}
		for _, configMap := range configMaps {
			facts.sources = append(facts.sources, ofConfigMap(configMap))
		}
	}
	slices.SortFunc(facts.sources, func(a, b object) int {
		return cmp.Or(cmp.Compare(b.kind, a.kind), cmp.Compare(a.Name, b.Name)) // Secrets first
	})
	facts.sources = slices.CompactFunc(facts.sources, func(a, b object) bool { return a.at() == b.at() })
	return facts, nil
}

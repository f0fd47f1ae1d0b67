package fleetworkspace

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/fleet"
	"github.com/drover-io/drover/pkg/kube/applyset"
	"github.com/drover-io/drover/pkg/kube/clients"
)

// Facts holds the cached facts about one name: the FleetWorkspace, and the namespace. Absent objects are nil.
type Facts struct {
	name      string
	workspace *mgmtv3.FleetWorkspace
	namespace *corev1.Namespace
	// isMade means that Drover created the namespace for this FleetWorkspace.
	isMade bool
	// fleet is whether Fleet is present.
	fleet clients.Presence
	// hasFleetObjects means that the namespace contains Fleet Clusters or Bundles.
	hasFleetObjects bool
	// holders are the clusters for which the namespace must stay.
	holders []string
	now     time.Time
}

func (h *handler) gather(name string, workspace *mgmtv3.FleetWorkspace) (*Facts, error) {
	facts := &Facts{name: name, workspace: workspace, now: h.Now()}
	var err error
	if facts.namespace, err = clients.Optional(h.namespaces.Get(name)); err != nil {
		return nil, fmt.Errorf("read namespace %s: %w", name, err)
	}
	facts.isMade = facts.namespace != nil && applyset.Marked(facts.namespace, workspaceSet, workspaceKind, "", name)
	if facts.fleet, err = h.Kinds.Presence(fleet.ClusterKind, fleet.Definition); err != nil {
		return nil, err
	}
	facts.hasFleetObjects = h.Kinds.AnyIn(fleet.ClusterKind, name) || h.Kinds.AnyIn(fleet.BundleKind, name)
	if workspace == nil || workspace.DeletionTimestamp.IsZero() {
		return facts, nil
	}
	facts.holders, err = h.holders(name)
	return facts, err
}

// holders returns the clusters in a namespace, and those whose workspace it is.
func (h *handler) holders(name string) ([]string, error) {
	clusters, err := h.clusters.GetByIndex(indexMembers, name)
	if err != nil {
		return nil, fmt.Errorf("find clusters of workspace %s: %w", name, err)
	}
	var out []string
	for _, cluster := range clusters {
		out = append(out, cluster.Namespace+"/"+cluster.Name)
	}
	others, err := h.capiClusters.List(name, labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list Cluster API clusters of namespace %s: %w", name, err)
	}
	for _, cluster := range others {
		out = append(out, cluster.Namespace+"/"+cluster.Name)
	}
	registered, err := h.Kinds.List(fleet.ClusterKind, name, labels.Everything())
	if err != nil {
		return out, nil //nolint:nilerr // Fleet is not present
	}
	for _, cluster := range registered {
		if set, _, _ := applyset.OwnerOf(cluster); set == "" {
			out = append(out, cluster.GetNamespace()+"/"+cluster.GetName())
		}
	}
	return out, nil
}

// holdersLive asks the API server for clusters that the caches lack, because the deletion of a namespace cannot be
// taken back.
func (h *handler) holdersLive(name string) ([]string, error) {
	clusters, err := h.Clusters.List(name, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list clusters of namespace %s: %w", name, err)
	}
	var out []string
	for i := range clusters.Items {
		out = append(out, clusters.Items[i].Namespace+"/"+clusters.Items[i].Name)
	}
	others, err := h.CAPIClusters.List(name, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list Cluster API clusters of namespace %s: %w", name, err)
	}
	for i := range others.Items {
		out = append(out, others.Items[i].Namespace+"/"+others.Items[i].Name)
	}
	return out, nil
}

package fleetcluster

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/fleet"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/reach/proxy"
)

// Facts holds the cached facts about one Cluster. Absent objects are nil.
type Facts struct {
	cluster    *provv1.Cluster
	management *mgmtv3.Cluster
	// fleet is whether Fleet is present.
	fleet clients.Presence
	// existing is the Fleet Cluster with the wanted name.
	existing *unstructured.Unstructured
	// workspace is the namespace of the workspace.
	workspace *corev1.Namespace
	// hasKubeconfig means that the Secret that Fleet reads has a kubeconfig.
	hasKubeconfig bool
	now           time.Time
}

func (h *handler) gather(cluster *provv1.Cluster) (*Facts, error) {
	facts := &Facts{cluster: cluster, now: h.Now()}
	var err error
	if facts.fleet, err = h.Kinds.Presence(fleet.ClusterKind, fleet.Definition); err != nil {
		return nil, err
	}
	if facts.fleet != clients.Served || cluster.Status.ClusterName == "" {
		return facts, nil
	}
	if facts.management, err = clients.Optional(h.management.Get(cluster.Status.ClusterName)); err != nil {
		return nil, fmt.Errorf("read management cluster %s: %w", cluster.Status.ClusterName, err)
	}
	workspace := topology.Workspace(cluster)
	if facts.existing, err = clients.Optional(h.Kinds.Get(fleet.ClusterKind, workspace, cluster.Name)); err != nil {
		return nil, fmt.Errorf("read Fleet Cluster %s/%s: %w", workspace, cluster.Name, err)
	}
	if facts.workspace, err = clients.Optional(h.namespaces.Get(workspace)); err != nil {
		return nil, fmt.Errorf("read namespace %s: %w", workspace, err)
	}
	secret, err := clients.Optional(h.secrets.Get(cluster.Namespace, naming.Kubeconfig(cluster.Name)))
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig of %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	facts.hasKubeconfig = secret != nil && len(secret.Data[proxy.KubeconfigKey]) > 0
	return facts, nil
}

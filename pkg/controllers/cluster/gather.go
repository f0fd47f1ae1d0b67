package cluster

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/kube/planstore"
	"github.com/drover-io/drover/pkg/reach/proxy"
)

// Facts holds the cached facts about one cluster. Absent objects are nil.
type Facts struct {
	cluster      *provv1.Cluster
	management   *mgmtv3.Cluster
	controlPlane *rkev1.RKEControlPlane
	kubeconfig   *corev1.Secret
	// captured holds the kubeconfigs that servers printed, by name of the machine.
	captured []capture
	// servers holds the addresses of all joined servers. One server's credentials work with all of them.
	servers []string
	// cutOff means that Cluster API cannot reach the cluster with the current kubeconfig.
	cutOff bool
	// link is the state of the agent's connection.
	link link
	// ending means that the namespace of the cluster is being deleted, and accepts no new objects.
	ending bool
	// survey is what was found in an imported cluster; nil if that is unknown.
	survey *survey
	now    time.Time
}

// capture is the kubeconfig that one server printed, and its addresses, the best first.
type capture struct {
	access    proxy.Access
	addresses []string
}

func (h *handler) gather(cluster *provv1.Cluster) (*Facts, error) {
	facts := &Facts{cluster: cluster, now: h.Now()}
	var err error
	if facts.management, err = clients.Optional(h.management.Get(cluster.Status.ClusterName)); err != nil {
		return nil, fmt.Errorf("read management cluster %s: %w", cluster.Status.ClusterName, err)
	}
	facts.link = h.linkOf(cluster, facts.management, facts.now)
	if cluster.Spec.RKEConfig == nil && facts.link.connected {
		facts.survey = h.surveys.follow(nameOf(cluster))
	}
	if facts.controlPlane, err = clients.Optional(h.controlPlanes.Get(cluster.Namespace, cluster.Name)); err != nil {
		return nil, fmt.Errorf("read control plane %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	facts.kubeconfig, err = clients.Optional(h.secrets.Get(cluster.Namespace, naming.Kubeconfig(cluster.Name)))
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig of %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	if h.CAPIClusters != nil {
		core, err := clients.Optional(h.CAPIClusters.Cache().Get(cluster.Namespace, cluster.Name))
		if err != nil {
			return nil, fmt.Errorf("read CAPI cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
		}
		facts.cutOff = core != nil &&
			conditions.IsFalseMeta(core.Status.Conditions, clusterv1.ClusterRemoteConnectionProbeCondition)
	}
	if facts.ending, err = h.isEnding(cluster.Namespace); err != nil {
		return nil, err
	}
	return facts, h.gatherCaptured(facts)
}

// isEnding reports whether a namespace is being deleted.
func (h *handler) isEnding(name string) (bool, error) {
	if h.namespaces == nil {
		return false, nil
	}
	namespace, err := clients.Optional(h.namespaces.Get(name))
	if err != nil {
		return false, fmt.Errorf("read namespace %s: %w", name, err)
	}
	return namespace != nil && namespace.DeletionTimestamp != nil, nil
}

// gatherCaptured starts from Machines with the control-plane role, which nodes cannot write. It reads the one plan
// Secret of each, so a worker cannot pretend to be a server.
func (h *handler) gatherCaptured(facts *Facts) error {
	selector := labels.SelectorFromSet(labels.Set{
		clusterv1.ClusterNameLabel: facts.cluster.Name, rkev1.ControlPlaneRoleLabel: rkev1.RoleLabelValue,
	})
	found, err := h.machines.List(facts.cluster.Namespace, selector)
	if err != nil {
		return fmt.Errorf("list servers of %s/%s: %w", facts.cluster.Namespace, facts.cluster.Name, err)
	}
	servers := slices.Clone(found)
	slices.SortFunc(servers, func(a, b *clusterv1.Machine) int { return cmp.Compare(a.Name, b.Name) })
	for _, server := range servers {
		if !server.DeletionTimestamp.IsZero() || server.Spec.Bootstrap.ConfigRef.Name == "" {
			continue
		}
		name := naming.PlanSecret(server.Spec.Bootstrap.ConfigRef.Name)
		secret, err := clients.Optional(h.secrets.Get(server.Namespace, name))
		if err != nil {
			return fmt.Errorf("read plan secret %s/%s: %w", server.Namespace, name, err)
		}
		if secret == nil || secret.Type != rkev1.SecretTypeMachinePlan {
			continue
		}
		if planstore.ReadMarks(server).JoinURL != "" {
			facts.servers = append(facts.servers, addresses(server)...)
		}
		if access, ok := printed(secret); ok {
			facts.captured = append(facts.captured, capture{access: access, addresses: addresses(server)})
		}
	}
	return nil
}

// printed reads the kubeconfig from a plan Secret. An unreadable or forbidden kubeconfig counts as absent, because it
// affects only that machine.
func printed(secret *corev1.Secret) (proxy.Access, bool) {
	outputs, err := nodeplan.DecodePeriodicOutput(secret.Data[nodeplan.KeyAppliedPeriodicOutput])
	if err != nil {
		return proxy.Access{}, false
	}
	output, ok := outputs[render.CaptureKubeconfig]
	if !ok || output.ExitCode != 0 || len(output.Stdout) == 0 {
		return proxy.Access{}, false
	}
	access, err := proxy.Capture(output.Stdout)
	return access, err == nil
}

// addresses lists the addresses of a server: external, then internal, then the address that other nodes join. All come
// from the Machine, because a node must not choose where Drover connects.
func addresses(server *clusterv1.Machine) []string {
	var found []string
	for _, wanted := range []clusterv1.MachineAddressType{clusterv1.MachineExternalIP, clusterv1.MachineInternalIP} {
		for _, address := range server.Status.Addresses {
			if address.Type == wanted && address.Address != "" {
				found = append(found, address.Address)
			}
		}
	}
	if joined, err := url.Parse(planstore.ReadMarks(server).JoinURL); err == nil && joined.Hostname() != "" {
		found = append(found, joined.Hostname())
	}
	return found
}

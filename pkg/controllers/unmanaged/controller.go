package unmanaged

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corecontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/core/v1"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/disruption"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/registration"
	"github.com/drover-io/drover/pkg/decide/topology"
	capicontrollers "github.com/drover-io/drover/pkg/generated/controllers/cluster.x-k8s.io/v1beta2"
	mgmtcontrollers "github.com/drover-io/drover/pkg/generated/controllers/management.cattle.io/v3"
	provcontrollers "github.com/drover-io/drover/pkg/generated/controllers/provisioning.cattle.io/v1"
	rkecontrollers "github.com/drover-io/drover/pkg/generated/controllers/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/kube/ownwrites"
	"github.com/drover-io/drover/pkg/kube/planstore"
	"github.com/drover-io/drover/pkg/kube/wakeup"
	"github.com/drover-io/drover/pkg/reach/proxy"
)

// Names of the handlers. Hosts persist them in metrics, do not change.
const (
	requestHandler = "machine-request"
	machineHandler = "custom-machine"
)

const (
	// indexRequests finds machine requests by their namespace.
	indexRequests = "unmanaged-machine-requests"
	// indexIdentities finds Machines by the identity of their agent.
	indexIdentities = "unmanaged-machine-identities"
	// indexWaiting finds Machines of registered hosts without a node by waitingKey: the servers of a cluster, or its
	// other hosts.
	indexWaiting = "unmanaged-machines-without-node"
	// indexCustomMachines finds CustomMachines by NAMESPACE/NAME of their cluster.
	indexCustomMachines = "unmanaged-custom-machines-by-cluster"
)

// Deps holds the controller's dependencies and settings.
type Deps struct {
	Secrets        corecontrollers.SecretController
	Bootstraps     rkecontrollers.RKEBootstrapController
	CustomMachines rkecontrollers.CustomMachineController
	Machines       capicontrollers.MachineController
	CAPIClusters   capicontrollers.ClusterController
	Clusters       provcontrollers.ClusterController
	// Tokens have the limits of the tokens with which hosts register.
	Tokens mgmtcontrollers.ClusterRegistrationTokenController
	// ControlPlanes show what the hosts of a cluster have installed. RKEClusters have the time after which a host that
	// is away is removed.
	ControlPlanes rkecontrollers.RKEControlPlaneController
	RKEClusters   rkecontrollers.RKEClusterController
	// Downstream reaches the nodes of clusters. With nil, Drover removes no host that is away, and no node of a former
	// host.
	Downstream proxy.ClientGetter
	// Disruptions counts removed hosts; nil counts nothing.
	Disruptions Counter
	// HostsWithoutNode limits the registered hosts of a cluster without a node; 0 means the default.
	HostsWithoutNode int
	// InstanceID marks the Clusters of this instance.
	InstanceID string
	// Log records what happens to hosts; nil means the standard logger.
	Log logrus.FieldLogger
	// Now is the clock; nil means the system's.
	Now func() time.Time
}

// Counter counts the disruptions that Drover begins; metrics.Disruptions implements it.
type Counter interface {
	Count(cause disruption.Cause, n int)
}

type handler struct {
	Deps
	// lasso's handlers get no context
	ctx            context.Context
	secrets        corecontrollers.SecretCache
	bootstraps     rkecontrollers.RKEBootstrapCache
	customMachines rkecontrollers.CustomMachineCache
	machines       capicontrollers.MachineCache
	capiClusters   capicontrollers.ClusterCache
	clusters       provcontrollers.ClusterCache
	tokens         mgmtcontrollers.ClusterRegistrationTokenCache
	controlPlanes  rkecontrollers.RKEControlPlaneCache
	rkeClusters    rkecontrollers.RKEClusterCache
	plans          *planstore.Plans
	written        *ownwrites.Log
	claims         claims
	known          known
}

// Register adds the handlers, their indexes and their wake-ups. They end with ctx.
func Register(ctx context.Context, d Deps) error {
	h := newHandler(ctx, d)
	d.Secrets.OnChange(clients.Only(ctx, isRequest), requestHandler, h.onRequest)
	d.CustomMachines.OnChange(ctx, machineHandler, h.onCustomMachine)
	if err := errors.Join(
		wakeup.On(ctx, d.Secrets, func(c *provv1.Cluster) []wakeup.Key { return h.requestsTo(c) }, d.Clusters),
		wakeup.On(ctx, d.Secrets, func(c *clusterv1.Cluster) []wakeup.Key {
			return h.requestsTo(h.clusterOf(c.Namespace, c.Name))
		}, d.CAPIClusters),
		wakeup.On(ctx, d.Secrets, func(m *clusterv1.Machine) []wakeup.Key { return h.requestOf(m, m.Spec.ClusterName) },
			d.Machines),
		wakeup.On(ctx, d.Secrets, h.refusedFor, d.Machines),
		wakeup.On(ctx, d.Secrets, func(b *rkev1.RKEBootstrap) []wakeup.Key {
			return h.requestOf(b, b.Spec.ClusterName)
		}, d.Bootstraps),
		wakeup.On(ctx, d.Secrets, func(m *rkev1.CustomMachine) []wakeup.Key { return h.requestOf(m, clusterLabel(m)) },
			d.CustomMachines),
		wakeup.On(ctx, d.Secrets, h.registersWith, d.Tokens),
		h.wakeCustomMachines(ctx),
	); err != nil {
		return fmt.Errorf("watch for hosts that register: %w", err)
	}
	return nil
}

// wakeCustomMachines adds the wake-ups of hosts that are machines.
func (h *handler) wakeCustomMachines(ctx context.Context) error {
	return errors.Join(
		wakeup.On(ctx, h.CustomMachines, func(c *provv1.Cluster) []wakeup.Key {
			return h.customMachinesOf(c.Namespace, c.Name)
		}, h.Clusters),
		wakeup.On(ctx, h.CustomMachines, func(c *clusterv1.Cluster) []wakeup.Key {
			return h.customMachinesOf(c.Namespace, c.Name)
		}, h.CAPIClusters),
		wakeup.On(ctx, h.CustomMachines, func(c *rkev1.RKECluster) []wakeup.Key {
			return h.customMachinesOf(c.Namespace, topology.CAPIOwner(c.OwnerReferences, "Cluster"))
		}, h.RKEClusters),
		wakeup.On(ctx, h.CustomMachines, hostOf, h.Machines),
		wakeup.On(ctx, h.CustomMachines, h.hostOfPlan, h.Secrets),
	)
}

func newHandler(ctx context.Context, d Deps) *handler {
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Log == nil {
		d.Log = logrus.StandardLogger()
	}
	d.HostsWithoutNode = cmp.Or(d.HostsWithoutNode, registration.DefaultHostsWithoutNode)
	h := &handler{
		Deps:           d,
		ctx:            ctx,
		secrets:        d.Secrets.Cache(),
		bootstraps:     d.Bootstraps.Cache(),
		customMachines: d.CustomMachines.Cache(),
		machines:       d.Machines.Cache(),
		capiClusters:   d.CAPIClusters.Cache(),
		clusters:       d.Clusters.Cache(),
		tokens:         d.Tokens.Cache(),
		controlPlanes:  d.ControlPlanes.Cache(),
		rkeClusters:    d.RKEClusters.Cache(),
		plans:          planstore.NewPlans(d.Secrets.Cache(), d.Secrets),
		written:        ownwrites.New(),
	}
	h.clusters.AddIndexer(provv1.IndexByCluster, topology.ByManagementCluster)
	h.secrets.AddIndexer(indexRequests, func(s *corev1.Secret) ([]string, error) {
		if !isRequest(s) {
			return nil, nil
		}
		return []string{s.Namespace}, nil
	})
	h.machines.AddIndexer(indexIdentities, func(m *clusterv1.Machine) ([]string, error) {
		if id := m.Labels[rkev1.MachineIDLabel]; id != "" {
			return []string{id}, nil
		}
		return nil, nil
	})
	h.machines.AddIndexer(planstore.ByCluster, planstore.IndexByCluster)
	h.machines.AddIndexer(planstore.ByPlanSecret, planstore.IndexByPlanSecret)
	h.machines.AddIndexer(indexWaiting, func(m *clusterv1.Machine) ([]string, error) {
		if isWaiting(m) {
			cluster := types.NamespacedName{Namespace: m.Namespace, Name: m.Spec.ClusterName}
			return []string{waitingKey(cluster, m.Labels[rkev1.EtcdRoleLabel] != "" ||
				m.Labels[rkev1.ControlPlaneRoleLabel] != "")}, nil
		}
		return nil, nil
	})
	h.customMachines.AddIndexer(indexCustomMachines, func(m *rkev1.CustomMachine) ([]string, error) {
		if cluster := clusterLabel(m); cluster != "" {
			return []string{m.Namespace + "/" + cluster}, nil
		}
		return nil, nil
	})
	return h
}

// customMachine is the kind of the infrastructure of hosts that register.
var customMachine = rkev1.SchemeGroupVersion.WithKind("CustomMachine").GroupKind()

func isRequest(secret *corev1.Secret) bool { return secret.Type == rkev1.SecretTypeMachineRequest }

func clusterLabel(m *rkev1.CustomMachine) string { return m.Labels[clusterv1.ClusterNameLabel] }

// clusterOf returns a Cluster from the cache, nil if it is absent.
func (h *handler) clusterOf(namespace, name string) *provv1.Cluster {
	cluster, err := h.clusters.Get(namespace, name)
	if err != nil {
		return nil // its own event follows
	}
	return cluster
}

// requestsTo returns the requests of hosts for a cluster, which may be nil.
func (h *handler) requestsTo(cluster *provv1.Cluster) []wakeup.Key {
	if cluster == nil {
		return nil
	}
	return wakeup.Found(h.secrets, indexRequests, cluster.Status.ClusterName)
}

// requestOf returns the request of the host that the object belongs to, or of a host that would use the object's name.
// The requests of most hosts are already deleted.
func (h *handler) requestOf(object wakeup.Object, cluster string) []wakeup.Key {
	id := object.GetLabels()[rkev1.MachineIDLabel]
	if id == "" && !isName(object.GetName()) {
		return nil
	}
	owner := h.clusterOf(object.GetNamespace(), cluster)
	if owner == nil {
		return nil
	}
	var keys []wakeup.Key
	for _, name := range []string{object.GetName(), naming.MachineRequest(naming.MachineRequestCustom, id)} {
		if request, err := h.secrets.Get(owner.Status.ClusterName, name); err == nil && isRequest(request) {
			keys = append(keys, wakeup.Key{Namespace: request.Namespace, Name: request.Name})
		}
	}
	return keys
}

// refusedFor returns the requests that were refused because too many hosts have no node yet. decide then counts the
// hosts of each kind.
func (h *handler) refusedFor(m *clusterv1.Machine) []wakeup.Key {
	// m is in its new or old state. Only a host without a node can make room.
	if !isCustom(m) || m.Status.NodeRef.IsDefined() {
		return nil
	}
	owner := h.clusterOf(m.Namespace, m.Spec.ClusterName)
	if owner == nil {
		return nil
	}
	requests, err := h.secrets.GetByIndex(indexRequests, owner.Status.ClusterName)
	if err != nil {
		return nil // the index is registered above
	}
	var keys []wakeup.Key
	for _, request := range requests {
		if request.Annotations[rkev1.RegistrationRefusedAnnotation] == tooMany(h.HostsWithoutNode) {
			keys = append(keys, wakeup.Key{Namespace: request.Namespace, Name: request.Name})
		}
	}
	return keys
}

// registersWith returns the requests of hosts that register with a token.
func (h *handler) registersWith(token *mgmtv3.ClusterRegistrationToken) []wakeup.Key {
	requests, err := h.secrets.GetByIndex(indexRequests, token.Namespace)
	if err != nil {
		return nil // the index is registered above
	}
	var keys []wakeup.Key
	for _, request := range requests {
		if registration.RequestToken(request) == token.Name {
			keys = append(keys, wakeup.Key{Namespace: request.Namespace, Name: request.Name})
		}
	}
	return keys
}

// isName reports whether a name has the form of a host's names.
func isName(name string) bool { return strings.HasPrefix(name, naming.MachineRequestCustom+"-") }

func (h *handler) onRequest(key string, request *corev1.Secret) (*corev1.Secret, error) {
	if request == nil {
		h.known.forget(key)
		return nil, nil
	}
	if !isRequest(request) || request.DeletionTimestamp != nil || h.written.Behind(request, h.Now()) {
		return request, nil
	}
	gathered, err := h.gather(request)
	if err != nil {
		return request, err
	}
	if !gathered.ofOthers() {
		gathered.since = h.known.firstSeen(key, request.UID, gathered.now)
	}
	return request, h.act(gathered, decide(gathered))
}

package cluster

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	corecontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/core/v1"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/topology"
	capicontrollers "github.com/drover-io/drover/pkg/generated/controllers/cluster.x-k8s.io/v1beta2"
	mgmtcontrollers "github.com/drover-io/drover/pkg/generated/controllers/management.cattle.io/v3"
	provcontrollers "github.com/drover-io/drover/pkg/generated/controllers/provisioning.cattle.io/v1"
	rkecontrollers "github.com/drover-io/drover/pkg/generated/controllers/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/ownwrites"
	"github.com/drover-io/drover/pkg/kube/wakeup"
	"github.com/drover-io/drover/pkg/reach/clusterproxy"
	"github.com/drover-io/drover/pkg/reach/proxy"
)

// handlerName is stored in metrics. It is the id of a set of controller provisioningcluster, too. Do not change it.
const handlerName = "cluster-create"

// Prober checks in the background whether a cluster's API server answers, and wakes the cluster when it does;
// proxy.Prober implements it.
type Prober interface {
	Answered(cluster types.NamespacedName) bool
	Forget(cluster types.NamespacedName)
}

// Deps holds the controller's dependencies and settings.
type Deps struct {
	Clusters           provcontrollers.ClusterController
	ManagementClusters mgmtcontrollers.ClusterController
	ControlPlanes      rkecontrollers.RKEControlPlaneController
	// CAPIClusters show whether a cluster is reachable; nil means that the controller never tries another server.
	CAPIClusters capicontrollers.ClusterController
	Machines     capicontrollers.MachineController
	Secrets      corecontrollers.SecretController
	// Namespaces tell which namespaces are being deleted; nil means that none is.
	Namespaces corecontrollers.NamespaceController
	Prober     Prober
	// Downstream reaches imported clusters, whose nodes are counted; nil counts none.
	Downstream proxy.ClientGetter
	// Refuses returns why the kubeconfig in a Secret is not used, nil if it is; nil refuses none.
	Refuses func(kubeconfig *corev1.Secret) error
	// Tunnel knows the clusters whose agent has dialed in; nil means that there is no tunnel.
	Tunnel Tunnel
	// Uninstall removes the agent from an imported cluster, through that agent; nil leaves the agent there.
	Uninstall func(ctx context.Context, cluster types.NamespacedName) error
	// Endpoints is where clusters with a connected agent are reached.
	Endpoints Endpoints
	// TokenNamespace is Drover's own namespace, which holds the tokens for these endpoints. Users who can write Secrets
	// in a Cluster's namespace must not be able to create tokens.
	TokenNamespace string
	// InstanceID marks the Clusters of this instance.
	InstanceID string
	// Statuses remembers status writes of Clusters. Sharing it with controller provisioningcluster avoids conflicts.
	// Nil makes a new one.
	Statuses *ownwrites.Statuses
	// Now is the clock; nil means the system's.
	Now func() time.Time
}

type handler struct {
	Deps
	// lasso's handlers get no context
	ctx           context.Context
	clusters      provcontrollers.ClusterCache
	management    mgmtcontrollers.ClusterCache
	controlPlanes rkecontrollers.RKEControlPlaneCache
	machines      capicontrollers.MachineCache
	secrets       corecontrollers.SecretCache
	// namespaces is nil without Deps.Namespaces.
	namespaces corecontrollers.NamespaceCache
	moved      moves
	// mirrored remembers status writes of management Clusters.
	mirrored *ownwrites.Statuses
	// began is the start of this leadership term; met holds the clusters whose agents connected in it.
	began   time.Time
	met     met
	surveys surveys
}

// Mirror is the controller.
type Mirror struct{ handler *handler }

// New returns a Mirror. Its work ends with ctx.
func New(ctx context.Context, d Deps) *Mirror { return &Mirror{newHandler(ctx, d)} }

// Register adds the handler and its wake-ups. Register controller provisioningcluster first: it adds the index of
// Clusters by management cluster, and this controller then sees what that one has just written.
func (m *Mirror) Register() error {
	m.handler.Clusters.OnChange(m.handler.ctx, handlerName, m.handler.onChange)
	return m.handler.wake(m.handler.ctx)
}

// Disconnect ends the connection to a cluster whose machines are gone.
func (m *Mirror) Disconnect(cluster *provv1.Cluster) error { return m.handler.disconnect(cluster) }

func newHandler(ctx context.Context, d Deps) *handler {
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Statuses == nil {
		d.Statuses = ownwrites.NewStatuses()
	}
	h := &handler{
		Deps: d, ctx: ctx, mirrored: ownwrites.NewStatuses(),
		clusters: d.Clusters.Cache(), management: d.ManagementClusters.Cache(), controlPlanes: d.ControlPlanes.Cache(),
		machines: d.Machines.Cache(), secrets: d.Secrets.Cache(), began: d.Now(),
	}
	if d.Namespaces != nil {
		h.namespaces = d.Namespaces.Cache()
	}
	if d.Downstream != nil {
		h.surveys.downstream, h.surveys.wake = d.Downstream, d.Clusters.EnqueueAfter
		h.surveys.of = map[types.NamespacedName]*survey{}
		h.surveys.visits = proxy.NewVisits(ctx, h.surveys.visit, logrus.WithField("controller", handlerName),
			"Cannot count the nodes of an imported cluster; Drover retries")
	}
	return h
}

func (h *handler) wake(ctx context.Context) error {
	byManagement := wakeup.ByIndex[*mgmtv3.Cluster](h.clusters, provv1.IndexByCluster, (*mgmtv3.Cluster).GetName)
	err := errors.Join(
		wakeup.On(ctx, h.Clusters, byManagement, h.ManagementClusters),
		wakeup.On(ctx, h.Clusters, ofControlPlane, h.ControlPlanes),
		wakeup.On(ctx, h.Clusters, ofServer, h.Machines),
		wakeup.On(ctx, h.Clusters, h.ofSecret, h.Secrets),
	)
	if h.CAPIClusters != nil {
		err = errors.Join(err, wakeup.On(ctx, h.Clusters, wakeup.BySameName[*clusterv1.Cluster](), h.CAPIClusters))
	}
	if h.Tunnel != nil {
		h.Tunnel.Subscribe(ctx, h.ofAgent)
	}
	return err
}

func ofControlPlane(cp *rkev1.RKEControlPlane) []wakeup.Key {
	return []wakeup.Key{{Namespace: cp.Namespace, Name: cp.Spec.ClusterName}}
}

// ofServer wakes the cluster of a machine that may serve its API.
func ofServer(m *clusterv1.Machine) []wakeup.Key {
	if m.Labels[rkev1.ControlPlaneRoleLabel] == "" {
		return nil
	}
	return []wakeup.Key{{Namespace: m.Namespace, Name: m.Spec.ClusterName}}
}

// ofSecret wakes the cluster of a plan Secret with periodic output, of a kubeconfig, or of a kubeconfig's token.
func (h *handler) ofSecret(secret *corev1.Secret) []wakeup.Key {
	switch {
	case secret.Type == rkev1.SecretTypeMachinePlan && len(secret.Data[nodeplan.KeyAppliedPeriodicOutput]) > 0:
		return []wakeup.Key{{Namespace: secret.Namespace, Name: secret.Labels[rkev1.ClusterNameLabel]}}
	case secret.Labels[clusterv1.ClusterNameLabel] != "" &&
		secret.Name == naming.Kubeconfig(secret.Labels[clusterv1.ClusterNameLabel]):
		return []wakeup.Key{{Namespace: secret.Namespace, Name: secret.Labels[clusterv1.ClusterNameLabel]}}
	case secret.Type == clusterproxy.TokenSecretType:
		return slices.DeleteFunc(h.keysOf(secret.Labels[clusterproxy.TokenClusterLabel]), func(of wakeup.Key) bool {
			return !h.uses(of, secret)
		})
	default:
		return nil
	}
}

// uses reports whether the kubeconfig of a cluster has a token. Another token is new, or was made for a kubeconfig that
// could not be stored. To wake the cluster for it would try again at once, and without end.
func (h *handler) uses(of wakeup.Key, token *corev1.Secret) bool {
	kubeconfig, err := h.secrets.Get(of.Namespace, naming.Kubeconfig(of.Name))
	return err == nil && kubeconfig.Annotations[rkev1.ProxyTokenAnnotation] == token.Name
}

// onChange mirrors a Cluster of this instance that has a name.
func (h *handler) onChange(_ string, cluster *provv1.Cluster) (*provv1.Cluster, error) {
	if cluster == nil || cluster.Status.ClusterName == "" || !cluster.DeletionTimestamp.IsZero() {
		return cluster, nil
	}
	if topology.Owner(cluster, h.InstanceID, false) != topology.Ours || !topology.HasOwnManagement(cluster) {
		h.surveys.forget(nameOf(cluster))
		return cluster, nil
	}
	if h.Statuses.Behind(cluster, h.Now()) {
		return cluster, nil
	}
	facts, err := h.gather(cluster)
	if err != nil {
		return cluster, err
	}
	if facts.management != nil && h.mirrored.Behind(facts.management, facts.now) {
		return cluster, nil // the event of the newer management Cluster requeues it
	}
	return h.report(facts, h.act(facts))
}

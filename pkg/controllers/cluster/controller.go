package cluster

import (
	"context"
	"crypto/rand"
	"fmt"
	"math/big"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	"github.com/drover-io/drover/pkg/kube/applyset"
	"github.com/drover-io/drover/pkg/kube/wakeup"
	"github.com/drover-io/drover/pkg/reach/clusterproxy"
)

// handlerName is the id of the apply set. It is persisted, do not change: another id would orphan every existing
// object.
const handlerName = "cluster-create"

// clusterKind is the kind of the sets' owners.
var clusterKind = provv1.SchemeGroupVersion.WithKind("Cluster")

// Applier applies the set of a cluster's management objects.
type Applier interface {
	Watch(kinds ...schema.GroupVersionKind) error
	Apply(ctx context.Context, setID string, owner runtime.Object, refs applyset.OwnerRefs,
		kinds []schema.GroupVersionKind, objs []runtime.Object) (applyset.Result, error)
	PurgeLive(ctx context.Context, setID string, owner schema.GroupVersionKind, namespace, name string,
		kinds []schema.GroupVersionKind) error
}

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
	// Namespaces are read from the API server before a requested name is taken.
	Namespaces Namespaces
	Apply      Applier
	Prober     Prober
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
	// Registry is the image registry of clusters that name none.
	Registry topology.Registry
	// Token draws a random token from the alphabet of package naming; nil means a cryptographically random one.
	Token func() (string, error)
	// Now is the clock; nil means the system's.
	Now func() time.Time
}

// Namespaces reads namespaces.
type Namespaces interface {
	Get(name string, options metav1.GetOptions) (*corev1.Namespace, error)
}

// setKinds returns the kinds of objects in the set.
func setKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		mgmtv3.SchemeGroupVersion.WithKind("Cluster"),
		corev1.SchemeGroupVersion.WithKind("Namespace"),
		mgmtv3.SchemeGroupVersion.WithKind("ClusterRegistrationToken"),
	}
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
	moved         moves
	// began is the start of this leadership term; met holds the clusters whose agents connected in it.
	began time.Time
	met   met
}

// Register adds the handler, its index and its wake-ups. They end with ctx.
func Register(ctx context.Context, d Deps) error {
	h := newHandler(ctx, d)
	if err := d.Apply.Watch(setKinds()...); err != nil {
		return fmt.Errorf("register %s: %w", handlerName, err)
	}
	d.Clusters.OnChange(ctx, handlerName, h.onChange)
	return h.wake(ctx)
}

func newHandler(ctx context.Context, d Deps) *handler {
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Token == nil {
		d.Token = randomToken
	}
	h := &handler{
		Deps: d, ctx: ctx,
		clusters: d.Clusters.Cache(), management: d.ManagementClusters.Cache(), controlPlanes: d.ControlPlanes.Cache(),
		machines: d.Machines.Cache(), secrets: d.Secrets.Cache(), began: d.Now(),
	}
	h.clusters.AddIndexer(provv1.IndexByCluster, topology.ByManagementCluster)
	return h
}

func (h *handler) wake(ctx context.Context) error {
	byManagement := wakeup.ByIndex[*mgmtv3.Cluster](h.clusters, provv1.IndexByCluster, func(c *mgmtv3.Cluster) string { return c.Name })
	if err := wakeup.On(ctx, h.Clusters, byManagement, h.ManagementClusters); err != nil {
		return fmt.Errorf("watch management clusters: %w", err)
	}
	if err := wakeup.On(ctx, h.Clusters, ofControlPlane, h.ControlPlanes); err != nil {
		return fmt.Errorf("watch control planes: %w", err)
	}
	if err := wakeup.On(ctx, h.Clusters, ofServer, h.Machines); err != nil {
		return fmt.Errorf("watch machines: %w", err)
	}
	if h.CAPIClusters != nil {
		if err := wakeup.On(ctx, h.Clusters, wakeup.BySameName[*clusterv1.Cluster](), h.CAPIClusters); err != nil {
			return fmt.Errorf("watch CAPI clusters: %w", err)
		}
	}
	if err := wakeup.On(ctx, h.Clusters, h.ofSecret, h.Secrets); err != nil {
		return fmt.Errorf("watch secrets: %w", err)
	}
	if h.Tunnel != nil {
		h.Tunnel.Subscribe(ctx, h.ofAgent)
	}
	return nil
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
	case secret.Labels[clusterv1.ClusterNameLabel] != "" && secret.Name == naming.Kubeconfig(secret.Labels[clusterv1.ClusterNameLabel]):
		return []wakeup.Key{{Namespace: secret.Namespace, Name: secret.Labels[clusterv1.ClusterNameLabel]}}
	case secret.Type == clusterproxy.TokenSecretType:
		return h.keysOf(secret.Labels[clusterproxy.TokenClusterLabel])
	default:
		return nil
	}
}

// onChange reconciles a Cluster. A crash never leaves two identifiers: see identify.
func (h *handler) onChange(_ string, cluster *provv1.Cluster) (*provv1.Cluster, error) {
	if cluster == nil || topology.Owner(cluster, h.InstanceID, false) != topology.Ours || !topology.HasOwnManagement(cluster) {
		return cluster, nil
	}
	if !cluster.DeletionTimestamp.IsZero() {
		return h.remove(cluster)
	}
	if !slices.Contains(cluster.Finalizers, provv1.ProvisioningClusterFinalizer) {
		return cluster, nil // controller provisioningcluster adds it, and that event requeues the Cluster
	}
	cluster, err := h.identify(cluster)
	if err != nil || cluster.Status.ClusterName == "" {
		return cluster, err
	}
	if _, err := h.Apply.Apply(h.ctx, handlerName, cluster, applyset.NoOwnerRef, setKinds(),
		topology.Management(cluster, h.Registry)); err != nil {
		return h.report(cluster, nil, err)
	}
	seen, err := h.gather(cluster)
	if err != nil {
		return cluster, err
	}
	if err := h.connect(seen); err != nil {
		return h.report(cluster, seen, err)
	}
	return h.report(cluster, seen, nil)
}

func randomToken() (string, error) {
	token := make([]byte, naming.RandomTokenLength)
	size := big.NewInt(int64(len(naming.RandomTokenAlphabet)))
	for i := range token {
		drawn, err := rand.Int(rand.Reader, size)
		if err != nil {
			return "", fmt.Errorf("draw a random token: %w", err)
		}
		token[i] = naming.RandomTokenAlphabet[drawn.Int64()]
	}
	return string(token), nil
}

package autoscaler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corecontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/core/v1"
	rbaccontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/rbac/v1"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/autoscaling"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/topology"
	capicontrollers "github.com/drover-io/drover/pkg/generated/controllers/cluster.x-k8s.io/v1beta2"
	mgmtcontrollers "github.com/drover-io/drover/pkg/generated/controllers/management.cattle.io/v3"
	provcontrollers "github.com/drover-io/drover/pkg/generated/controllers/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/applyset"
	"github.com/drover-io/drover/pkg/kube/ownwrites"
	"github.com/drover-io/drover/pkg/kube/wakeup"
	"github.com/drover-io/drover/pkg/reach/proxy"
)

// handlerName is also the id of the apply set. It is persisted, do not change.
const handlerName = "cluster-autoscaler"

// indexAccounts finds Clusters by namespace/name of the account of their autoscaler.
const indexAccounts = "cluster-autoscaler-accounts"

// Applier applies the account of a Cluster's autoscaler; applyset.Set implements it.
type Applier interface {
	Watch(kinds ...schema.GroupVersionKind) error
	Apply(ctx context.Context, setID string, owner runtime.Object, refs applyset.OwnerRefs,
		kinds []schema.GroupVersionKind, objs []runtime.Object) (applyset.Result, error)
	Purge(ctx context.Context, setID string, owner schema.GroupVersionKind, namespace, name string,
		kinds []schema.GroupVersionKind) (applyset.Result, error)
	End(setID string, owner schema.GroupVersionKind, namespace, name string) error
}

// Tunnel knows the clusters whose agent has dialed in; tunnel.Server implements it.
type Tunnel interface {
	// Connected reports whether an agent of the management cluster with that name is connected here.
	Connected(id string) bool
	// Subscribe calls listener, until ctx ends, with the name of each management cluster whose connection changes.
	Subscribe(ctx context.Context, listener func(id string))
}

// Settings configure the autoscalers.
type Settings struct {
	// Image is the image of the cluster-autoscaler (autoscaling.Image). Empty deploys none.
	Image string
	// Registry is for clusters that name none.
	Registry string
	// ServerURL and CACerts are those of Drover's server.
	ServerURL, CACerts string
}

// Deps holds the controller's dependencies and settings.
type Deps struct {
	Clusters           provcontrollers.ClusterController
	ManagementClusters mgmtcontrollers.ClusterController
	Machines           capicontrollers.MachineController
	// MachineDeployments are read only.
	MachineDeployments capicontrollers.MachineDeploymentController
	Secrets            corecontrollers.SecretController
	ServiceAccounts    corecontrollers.ServiceAccountController
	Roles              rbaccontrollers.RoleController
	Apply              Applier
	// Issue returns a token of a service account that is valid for about that time.
	Issue func(ctx context.Context, account types.NamespacedName, life time.Duration) (string, error)
	// Downstream reaches clusters.
	Downstream proxy.ClientGetter
	// Tunnel reports when agents dial in; nil means that there is no tunnel.
	Tunnel Tunnel
	// Settings configure the autoscalers.
	Settings Settings
	// InstanceID marks the Clusters of this instance.
	InstanceID string
	// Statuses remembers status writes of Clusters. The controllers of Clusters share it. Nil makes a new one.
	Statuses *ownwrites.Statuses
	// Log reports clusters that do not answer; nil means the standard logger.
	Log logrus.FieldLogger
	// Now is the clock; nil means the system's.
	Now func() time.Time
}

type handler struct {
	Deps
	// lasso's handlers get no context
	ctx         context.Context
	clusters    provcontrollers.ClusterCache
	management  mgmtcontrollers.ClusterCache
	machines    capicontrollers.MachineCache
	deployments capicontrollers.MachineDeploymentCache
	secrets     corecontrollers.SecretCache
	accounts    corecontrollers.ServiceAccountCache
	roles       rbaccontrollers.RoleCache
	visits      *proxy.Visits
	written     *ownwrites.Log

	mu sync.Mutex
	// seen is what the last visit to each cluster found. It is lost with the process.
	seen map[types.NamespacedName]sight
}

var clusterKind = provv1.SchemeGroupVersion.WithKind("Cluster")

// setKinds are the kinds of objects in the set.
func setKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
		rbacv1.SchemeGroupVersion.WithKind("Role"),
		rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
	}
}

// Register adds the handler, its index and its wake-ups. Everything it starts ends with ctx.
func Register(ctx context.Context, d Deps) error {
	h := newHandler(ctx, d)
	if err := d.Apply.Watch(setKinds()...); err != nil {
		return fmt.Errorf("register %s: %w", handlerName, err)
	}
	h.clusters.AddIndexer(provv1.IndexByCluster, topology.ByManagementCluster)
	h.clusters.AddIndexer(indexAccounts, func(c *provv1.Cluster) ([]string, error) {
		return []string{c.Namespace + "/" + naming.Autoscaler(c.Namespace, c.Name)}, nil
	})
	d.Clusters.OnChange(ctx, handlerName, h.onChange)
	byManagement := wakeup.ByIndex[*mgmtv3.Cluster](h.clusters, provv1.IndexByCluster, (*mgmtv3.Cluster).GetName)
	byAccount := wakeup.ByIndex[*corev1.ServiceAccount](h.clusters, indexAccounts,
		func(a *corev1.ServiceAccount) string { return a.Namespace + "/" + a.Name })
	if err := errors.Join(
		wakeup.On(ctx, d.Clusters, h.ofMachine, d.Machines),
		wakeup.On(ctx, d.Clusters, h.ofDeployment, d.MachineDeployments),
		wakeup.On(ctx, d.Clusters, byAccount, d.ServiceAccounts),
		wakeup.On(ctx, d.Clusters, ofKubeconfig, d.Secrets),
		wakeup.On(ctx, d.Clusters, byManagement, d.ManagementClusters),
	); err != nil {
		return fmt.Errorf("watch for autoscalers of clusters: %w", err)
	}
	if d.Tunnel != nil {
		d.Tunnel.Subscribe(ctx, h.session)
	}
	return nil
}

func newHandler(ctx context.Context, d Deps) *handler {
	if d.Log == nil {
		d.Log = logrus.StandardLogger()
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Statuses == nil {
		d.Statuses = ownwrites.NewStatuses()
	}
	h := &handler{
		Deps: d, ctx: ctx, clusters: d.Clusters.Cache(), management: d.ManagementClusters.Cache(),
		machines: d.Machines.Cache(), deployments: d.MachineDeployments.Cache(), secrets: d.Secrets.Cache(),
		accounts: d.ServiceAccounts.Cache(), roles: d.Roles.Cache(), written: ownwrites.New(),
		seen: map[types.NamespacedName]sight{},
	}
	h.visits = proxy.NewVisits(ctx, h.visit, d.Log.WithField("controller", handlerName),
		"Cannot reconcile the autoscaler in a cluster; Drover retries")
	return h
}

// ofMachine wakes the Cluster of a Machine that its Role must name, or must no longer name. All other events of
// Machines wake nothing, because they are frequent.
func (h *handler) ofMachine(machine *clusterv1.Machine) []wakeup.Key {
	name := machine.Labels[clusterv1.ClusterNameLabel]
	cluster, err := h.clusters.Get(machine.Namespace, name)
	if err != nil || len(autoscaling.Deployments(cluster)) == 0 {
		return nil
	}
	role, err := h.roles.Get(machine.Namespace, naming.Autoscaler(machine.Namespace, name))
	if err != nil {
		return nil // the event of its account wakes the Cluster
	}
	present, err := h.machines.Get(machine.Namespace, machine.Name)
	wanted := err == nil && autoscaling.Sizes(cluster, present)
	if wanted == autoscaling.PermitsMachine(role, machine.Name) {
		return nil
	}
	return []wakeup.Key{{Namespace: machine.Namespace, Name: name}}
}

// ofDeployment wakes the Cluster of a MachineDeployment that its Role must name, or must no longer name.
func (h *handler) ofDeployment(deployment *clusterv1.MachineDeployment) []wakeup.Key {
	name := deployment.Spec.ClusterName
	cluster, err := h.clusters.Get(deployment.Namespace, name)
	if err != nil || !autoscaling.Owns(cluster, deployment) {
		return nil
	}
	role, err := h.roles.Get(deployment.Namespace, naming.Autoscaler(deployment.Namespace, name))
	if err != nil {
		return nil // the event of its account wakes the Cluster
	}
	present, err := h.deployments.Get(deployment.Namespace, deployment.Name)
	wanted := err == nil && autoscaling.Owns(cluster, present)
	if wanted == autoscaling.PermitsDeployment(role, deployment.Name) {
		return nil
	}
	return []wakeup.Key{{Namespace: deployment.Namespace, Name: name}}
}

func ofKubeconfig(secret *corev1.Secret) []wakeup.Key {
	if cluster, ok := autoscaling.IsKubeconfig(secret); ok {
		return []wakeup.Key{{Namespace: secret.Namespace, Name: cluster}}
	}
	return nil
}

// session handles an agent that connected or disconnected. The cluster may have changed meanwhile.
func (h *handler) session(id string) {
	if !h.Tunnel.Connected(id) {
		return
	}
	for _, key := range wakeup.Found(h.clusters, provv1.IndexByCluster, id) {
		name := types.NamespacedName{Namespace: key.Namespace, Name: key.Name}
		if cluster, err := h.clusters.Get(key.Namespace, key.Name); err == nil && h.deploys(cluster) {
			h.forget(name)
			h.visits.Connected(name)
		}
	}
}

func (h *handler) onChange(key string, cluster *provv1.Cluster) (*provv1.Cluster, error) {
	if cluster == nil {
		namespace, name, _ := strings.Cut(key, "/")
		h.forget(types.NamespacedName{Namespace: namespace, Name: name})
		return nil, h.Apply.End(handlerName, clusterKind, namespace, name)
	}
	if !topology.IsOurs(cluster, h.InstanceID) || cluster.DeletionTimestamp != nil ||
		h.Statuses.Behind(cluster, h.Now()) {
		return cluster, nil // its objects go with it; or the event of the newer version requeues it
	}
	facts, err := h.gather(cluster)
	if err != nil || facts == nil {
		return cluster, err
	}
	return h.report(facts, h.act(facts))
}

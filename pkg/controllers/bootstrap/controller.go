package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"time"

	corecontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/core/v1"
	rbaccontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/rbac/v1"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	capicontrollers "github.com/drover-io/drover/pkg/generated/controllers/cluster.x-k8s.io/v1beta2"
	provcontrollers "github.com/drover-io/drover/pkg/generated/controllers/provisioning.cattle.io/v1"
	rkecontrollers "github.com/drover-io/drover/pkg/generated/controllers/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/applyset"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/kube/ownwrites"
	"github.com/drover-io/drover/pkg/kube/planstore"
	"github.com/drover-io/drover/pkg/kube/wakeup"
	"github.com/drover-io/drover/pkg/reach/proxy"
)

// handlerName is the id of the apply set. It is persisted, do not change: another id would orphan every existing
// object.
const handlerName = "rke-bootstrap"

// Names of the other handlers. Hosts persist them in metrics, do not change.
const (
	hookHandler  = "rke-bootstrap-etcd-removal"
	tokenHandler = "rke-bootstrap-token" //nolint:gosec // the name of a handler, no credential
)

// Applier applies the set of a machine's accounts and rights; applyset.Set implements it.
type Applier interface {
	Watch(kinds ...schema.GroupVersionKind) error
	Apply(ctx context.Context, setID string, owner runtime.Object, refs applyset.OwnerRefs,
		kinds []schema.GroupVersionKind, objs []runtime.Object) (applyset.Result, error)
}

// setEnder is an Applier that can drop its state of a set. A host's own Applier need not implement it.
type setEnder interface {
	End(setID string, owner schema.GroupVersionKind, namespace, name string) error
}

// Settings are the installation's settings for all machines.
type Settings struct {
	// ServerURL is the address at which machines reach the server, without a trailing slash.
	ServerURL string
	// CACerts is the server's authority in PEM. Empty if the system's authorities verify the server.
	CACerts string
	// LinuxInstaller is the script that installs the agent.
	LinuxInstaller string
	// ServesAgent means that the server has the agent's program at /assets.
	ServesAgent bool
	// ReusedTTL is how long a machine's token stays valid after its last use, once its agent has reported. Before that
	// report, and with zero, it is valid until the machine is a node.
	ReusedTTL time.Duration
}

// Deps holds the controller's dependencies and settings.
type Deps struct {
	Bootstraps      rkecontrollers.RKEBootstrapController
	ControlPlanes   rkecontrollers.RKEControlPlaneController
	Machines        capicontrollers.MachineController
	CAPIClusters    capicontrollers.ClusterController
	Clusters        provcontrollers.ClusterController
	Secrets         corecontrollers.SecretController
	ServiceAccounts corecontrollers.ServiceAccountController
	// Roles and RoleBindings restore deleted rights of an agent at once. If nil, the next event of the machine restores
	// them.
	Roles        rbaccontrollers.RoleController
	RoleBindings rbaccontrollers.RoleBindingController
	Apply        Applier
	Downstream   proxy.ClientGetter
	Settings     Settings
	// InstanceID marks the Clusters of this instance.
	InstanceID string
	// Log records why a machine is held; nil means the standard logger.
	Log logrus.FieldLogger
	// Now is the clock; nil means the system's.
	Now func() time.Time
}

type handler struct {
	Deps
	// lasso's handlers get no context
	ctx             context.Context
	bootstraps      rkecontrollers.RKEBootstrapCache
	controlPlanes   rkecontrollers.RKEControlPlaneCache
	machines        capicontrollers.MachineCache
	capiClusters    capicontrollers.ClusterCache
	clusters        provcontrollers.ClusterCache
	secrets         corecontrollers.SecretCache
	serviceAccounts corecontrollers.ServiceAccountCache
	written         *ownwrites.Log
	// queries locks a cluster from reading its etcd members until one of them is asked to leave.
	queries queries
	// patience is how long a cluster may be silent before the status of a held machine says so.
	patience time.Duration
}

// setKinds returns the kinds of objects in the set.
func setKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
		rbacv1.SchemeGroupVersion.WithKind("Role"),
		rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
	}
}

// Register adds the handlers and their wake-ups. They end with ctx.
func Register(ctx context.Context, d Deps) error {
	h := newHandler(ctx, d)
	if err := d.Apply.Watch(setKinds()...); err != nil {
		return fmt.Errorf("register %s: %w", handlerName, err)
	}
	d.Bootstraps.OnChange(ctx, handlerName, h.onChange)
	d.Bootstraps.OnChange(ctx, hookHandler, h.onHook)
	d.Secrets.OnChange(clients.Only(ctx, inUse), tokenHandler, h.onToken)
	return h.wake(ctx)
}

func newHandler(ctx context.Context, d Deps) *handler {
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Log == nil {
		d.Log = logrus.StandardLogger()
	}
	h := &handler{
		Deps: d, ctx: ctx, bootstraps: d.Bootstraps.Cache(), controlPlanes: d.ControlPlanes.Cache(),
		machines:     d.Machines.Cache(),
		capiClusters: d.CAPIClusters.Cache(), clusters: d.Clusters.Cache(), secrets: d.Secrets.Cache(),
		serviceAccounts: d.ServiceAccounts.Cache(),
		written:         ownwrites.New(), patience: downPatience,
	}
	h.machines.AddIndexer(planstore.ByCluster, planstore.IndexByCluster)
	return h
}

func (h *handler) wake(ctx context.Context) error {
	owned := wakeup.ByOwner[*corev1.Secret](rkev1.Kind("RKEBootstrap"))
	token := wakeup.ByLabel[*corev1.Secret](rkev1.BootstrapNameLabel)
	return errors.Join(
		wakeup.On(ctx, h.Bootstraps, ofMachine, h.Machines),
		wakeup.On(ctx, h.Bootstraps, func(c *clusterv1.Cluster) []wakeup.Key {
			return h.ofCluster(c.Namespace, c.Name)
		}, h.CAPIClusters),
		wakeup.On(ctx, h.Bootstraps, func(c *provv1.Cluster) []wakeup.Key { return h.ofCluster(c.Namespace, c.Name) },
			h.Clusters),
		wakeup.On(ctx, h.Bootstraps, func(cp *rkev1.RKEControlPlane) []wakeup.Key {
			return h.ofCluster(cp.Namespace, cp.Spec.ClusterName)
		}, h.ControlPlanes),
		wakeup.On(ctx, h.Bootstraps, wakeup.Any(owned, token), h.Secrets),
		wakeup.On(ctx, h.Bootstraps, wakeup.ByLabel[*corev1.ServiceAccount](rkev1.BootstrapNameLabel),
			h.ServiceAccounts),
		wakeup.On(ctx, h.Secrets, tokenOfMachine, h.Machines),
		wakeup.On(ctx, h.Secrets, func(c *provv1.Cluster) []wakeup.Key {
			return tokens(h.ofCluster(c.Namespace, c.Name))
		}, h.Clusters),
		wakeup.On(ctx, h.Secrets, tokenOfPlan, h.Secrets),
		h.wakeWithRights(ctx),
	)
}

// wakeWithRights adds wake-ups that restore an agent's rights.
func (h *handler) wakeWithRights(ctx context.Context) error {
	var errs []error
	if h.Roles != nil {
		errs = append(errs, wakeup.On(ctx, h.Bootstraps, wakeup.ByOwner[*rbacv1.Role](rkev1.Kind("RKEBootstrap")),
			h.Roles))
	}
	if h.RoleBindings != nil {
		errs = append(errs,
			wakeup.On(ctx, h.Bootstraps, wakeup.ByOwner[*rbacv1.RoleBinding](rkev1.Kind("RKEBootstrap")),
				h.RoleBindings))
	}
	return errors.Join(errs...)
}

func ofMachine(machine *clusterv1.Machine) []wakeup.Key {
	ref := machine.Spec.Bootstrap.ConfigRef
	if !ref.IsDefined() || ref.Kind != "RKEBootstrap" {
		return nil
	}
	return []wakeup.Key{{Namespace: machine.Namespace, Name: ref.Name}}
}

// ofCluster returns the bootstrap objects of all machines of a cluster.
func (h *handler) ofCluster(namespace, name string) []wakeup.Key {
	machines, err := planstore.MachinesOf(h.machines, namespace, name)
	if err != nil {
		return nil // the index is registered above
	}
	var keys []wakeup.Key
	for _, machine := range machines {
		keys = append(keys, ofMachine(machine)...)
	}
	return keys
}

func (h *handler) onChange(key string, bootstrap *rkev1.RKEBootstrap) (*rkev1.RKEBootstrap, error) {
	if bootstrap == nil {
		return nil, h.end(key)
	}
	if bootstrap.DeletionTimestamp != nil || h.written.Behind(bootstrap, h.Now()) {
		return bootstrap, nil
	}
	if label := bootstrap.Labels[clusterv1.ClusterNameLabel]; label != "" && label != bootstrap.Spec.ClusterName {
		if ours, err := h.ours(bootstrap.Namespace, label); err != nil || !ours {
			return bootstrap, err
		}
		return h.adoptName(bootstrap, label)
	}
	snapshot, ready, err := h.gather(bootstrap)
	if err != nil || !ready {
		return bootstrap, err // an event of the missing object requeues it
	}
	done, err := h.act(snapshot)
	return h.conclude(bootstrap, done, err)
}

// end drops the state of a deleted bootstrap object.
func (h *handler) end(key string) error {
	sets, ok := h.Apply.(setEnder)
	if !ok {
		return nil
	}
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return fmt.Errorf("read key %q: %w", key, err)
	}
	return sets.End(handlerName, rkev1.SchemeGroupVersion.WithKind("RKEBootstrap"), namespace, name)
}

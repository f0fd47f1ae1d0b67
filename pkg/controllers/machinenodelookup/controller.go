package machinenodelookup

import (
	"context"
	"errors"
	"time"

	corecontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/core/v1"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/decide/naming"
	capicontrollers "github.com/drover-io/drover/pkg/generated/controllers/cluster.x-k8s.io/v1beta2"
	provcontrollers "github.com/drover-io/drover/pkg/generated/controllers/provisioning.cattle.io/v1"
	rkecontrollers "github.com/drover-io/drover/pkg/generated/controllers/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/ownwrites"
	"github.com/drover-io/drover/pkg/kube/planstore"
	"github.com/drover-io/drover/pkg/kube/wakeup"
	"github.com/drover-io/drover/pkg/reach/proxy"
)

// Hosts persist handlerName in metrics, do not change.
const handlerName = "machine-node-lookup"

// The intervals at which the controller looks for a node: often while its machine is young, rarely afterwards.
const (
	oftenFor = 15 * time.Minute
	often    = 3 * time.Second
	rarely   = 15 * time.Second
)

// Dynamic reads and writes machines of kinds that are added at run time; clients.Dynamic implements it.
type Dynamic interface {
	Get(gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error)
	Patch(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string, pt types.PatchType, data []byte,
		subresources ...string) (*unstructured.Unstructured, error)
	OnInformer(f func(gvk schema.GroupVersionKind, informer cache.SharedIndexInformer))
}

// Deps holds the controller's dependencies and settings.
type Deps struct {
	Bootstraps     rkecontrollers.RKEBootstrapController
	Machines       capicontrollers.MachineController
	CustomMachines rkecontrollers.CustomMachineController
	Secrets        corecontrollers.SecretController
	Dynamic        Dynamic
	Downstream     proxy.ClientGetter
	// Clusters show which clusters have the mark InstanceID; the controller ignores all others. Nil means that this is
	// the only manager.
	Clusters   provcontrollers.ClusterController
	InstanceID string
	// CAPIClusters show whether a cluster is paused. Nil means that none is.
	CAPIClusters capicontrollers.ClusterController
	// Log records why a node was not found, at debug level, and warns that a cluster does not answer.
	Log logrus.FieldLogger
	// Now is the clock; nil means the system's.
	Now func() time.Time
}

type handler struct {
	Deps
	// lasso's handlers get no context
	ctx            context.Context
	machines       capicontrollers.MachineCache
	customMachines rkecontrollers.CustomMachineCache
	secrets        corecontrollers.SecretCache
	clusters       provcontrollers.ClusterCache
	capiClusters   capicontrollers.ClusterCache
	lookout        *lookout
	written        *ownwrites.Log
}

// Register adds the handler, its index and its wake-ups. They end with ctx.
func Register(ctx context.Context, d Deps) error {
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Log == nil {
		d.Log = logrus.StandardLogger()
	}
	h := &handler{Deps: d, ctx: ctx, machines: d.Machines.Cache(), customMachines: d.CustomMachines.Cache(),
		secrets: d.Secrets.Cache()}
	h.lookout, h.written = newLookout(d.Downstream, d.Now, d.Log), ownwrites.New()
	h.lookout.belongsToOther = h.belongsToOther
	h.machines.AddIndexer(planstore.ByCluster, planstore.IndexByCluster)
	d.Bootstraps.OnChange(ctx, handlerName, h.onChange)
	d.Dynamic.OnInformer(func(gvk schema.GroupVersionKind, informer cache.SharedIndexInformer) {
		if gvk.Group != driverschema.MachineGroup {
			return
		}
		if err := wakeup.OnInformer(ctx, d.Bootstraps, h.ofInfra, informer); err != nil {
			d.Log.WithError(err).WithField("controller", handlerName).WithField("kind",
				gvk.Kind).Warn("Cannot watch this kind of machines")
		}
	})
	return errors.Join(
		wakeup.On(ctx, d.Bootstraps, ofMachine, d.Machines),
		wakeup.On(ctx, d.Bootstraps, h.ofCustomMachine, d.CustomMachines),
		wakeup.On(ctx, d.Bootstraps, wakeup.Any(ofPlan, h.ofKubeconfig), d.Secrets),
		h.wakeWithClusters(ctx),
	)
}

// wakeWithClusters wakes machines whose cluster gets this instance's mark or is resumed.
func (h *handler) wakeWithClusters(ctx context.Context) error {
	var errs []error
	if h.Clusters != nil {
		h.clusters = h.Clusters.Cache()
		errs = append(errs, wakeup.On(ctx, h.Bootstraps, func(c *provv1.Cluster) []wakeup.Key {
			return h.ofCluster(c.Namespace, c.Name)
		}, h.Clusters))
	}
	if h.CAPIClusters != nil {
		h.capiClusters = h.CAPIClusters.Cache()
		errs = append(errs, wakeup.On(ctx, h.Bootstraps, func(c *clusterv1.Cluster) []wakeup.Key {
			return h.ofCluster(c.Namespace, c.Name)
		}, h.CAPIClusters))
	}
	return errors.Join(errs...)
}

func ofMachine(machine *clusterv1.Machine) []wakeup.Key {
	ref := machine.Spec.Bootstrap.ConfigRef
	if !ref.IsDefined() || ref.Kind != "RKEBootstrap" || machine.Spec.ProviderID != "" {
		return nil
	}
	return []wakeup.Key{{Namespace: machine.Namespace, Name: ref.Name}}
}

// ofInfra wakes a machine when its infrastructure machine becomes ready.
func (h *handler) ofInfra(infra *unstructured.Unstructured) []wakeup.Key { return h.ofOwner(infra) }

func (h *handler) ofCustomMachine(infra *rkev1.CustomMachine) []wakeup.Key { return h.ofOwner(infra) }

func (h *handler) ofOwner(infra metav1.Object) []wakeup.Key {
	var keys []wakeup.Key
	for _, owner := range infra.GetOwnerReferences() {
		if owner.Kind != "Machine" {
			continue
		}
		if machine, err := h.machines.Get(infra.GetNamespace(), owner.Name); err == nil {
			keys = append(keys, ofMachine(machine)...)
		}
	}
	return keys
}

// ofPlan wakes a machine when its agent has reported, because its node may have registered.
func ofPlan(secret *corev1.Secret) []wakeup.Key {
	if secret.Type != rkev1.SecretTypeMachinePlan {
		return nil
	}
	return wakeup.ByOwner[*corev1.Secret](rkev1.Kind("RKEBootstrap"))(secret)
}

// ofKubeconfig wakes the machines of a cluster when the cluster becomes reachable.
func (h *handler) ofKubeconfig(secret *corev1.Secret) []wakeup.Key {
	name, ok := naming.ClusterOfKubeconfig(secret.Name)
	if !ok {
		return nil
	}
	return h.ofCluster(secret.Namespace, name)
}

// ofCluster returns the machines of a cluster that need their nodes.
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

func (h *handler) onChange(_ string, bootstrap *rkev1.RKEBootstrap) (*rkev1.RKEBootstrap, error) {
	if bootstrap == nil || bootstrap.DeletionTimestamp != nil {
		return bootstrap, nil
	}
	snapshot, look, err := h.gather(bootstrap)
	if err != nil || !look {
		return bootstrap, err
	}
	if left := h.written.Left(string(snapshot.machine.UID), h.Now()); left > 0 {
		h.Bootstraps.EnqueueAfter(bootstrap.Namespace, bootstrap.Name, left)
		return bootstrap, nil
	}
	node, again, err := h.lookout.find(h.ctx, snapshot.cluster(), planstore.UID(snapshot.machine))
	if err != nil || node == nil {
		h.wait(bootstrap, snapshot, again, err)
		return bootstrap, nil
	}
	if err := h.act(snapshot, node); err != nil {
		return bootstrap, err
	}
	h.written.Did(string(snapshot.machine.UID), h.Now())
	h.lookout.forget(snapshot.cluster(), planstore.UID(snapshot.machine))
	return bootstrap, nil
}

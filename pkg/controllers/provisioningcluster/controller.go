package provisioningcluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	corecontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/core/v1"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/outcome"
	"github.com/drover-io/drover/pkg/decide/tenancy"
	"github.com/drover-io/drover/pkg/decide/topology"
	capicontrollers "github.com/drover-io/drover/pkg/generated/controllers/cluster.x-k8s.io/v1beta2"
	mgmtcontrollers "github.com/drover-io/drover/pkg/generated/controllers/management.cattle.io/v3"
	provcontrollers "github.com/drover-io/drover/pkg/generated/controllers/provisioning.cattle.io/v1"
	rkecontrollers "github.com/drover-io/drover/pkg/generated/controllers/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/access"
	"github.com/drover-io/drover/pkg/kube/applyset"
	"github.com/drover-io/drover/pkg/kube/wakeup"
	"github.com/drover-io/drover/pkg/observe/metrics"
)

// handlerName is the id of the apply set and part of the finalizer. It is persisted, do not change: another id would
// orphan every existing object.
const handlerName = "rke-cluster"

// indexBySchema finds Clusters by the names of the DynamicSchemas of their pools.
const indexBySchema = "drover-by-dynamic-schema"

// indexByReference finds Clusters by the Secrets of other namespaces that they name, as NAMESPACE/NAME.
const indexByReference = "drover-by-reference"

// DynamicKinds reads and writes the kinds of node drivers, which are added and removed at run time.
type DynamicKinds interface {
	Get(gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error)
	Update(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error)
	Kinds() []schema.GroupVersionKind
	Synced(gvk schema.GroupVersionKind) bool
	OnInformer(f func(schema.GroupVersionKind, cache.SharedIndexInformer))
}

// Applier applies the set of a cluster's objects.
type Applier interface {
	Watch(kinds ...schema.GroupVersionKind) error
	Apply(ctx context.Context, setID string, owner runtime.Object, refs applyset.OwnerRefs,
		kinds []schema.GroupVersionKind, objs []runtime.Object) (applyset.Result, error)
	PurgeLive(ctx context.Context, setID string, owner schema.GroupVersionKind, namespace, name string, kinds []schema.GroupVersionKind) error
	PurgeKept(ctx context.Context, setID string, owner schema.GroupVersionKind, namespace, name string, kinds []schema.GroupVersionKind) error
}

// Access decides which Secrets of other namespaces a cluster may use; access.Checker implements it.
type Access interface {
	Check(cluster *provv1.Cluster, secret types.NamespacedName, annotations map[string]string) (access.Verdict, string)
	OnChange(f func(cluster types.NamespacedName))
}

// Deps holds the controller's dependencies and settings.
type Deps struct {
	Clusters           provcontrollers.ClusterController
	CAPIClusters       capicontrollers.ClusterController
	Machines           capicontrollers.MachineController
	MachineDeployments capicontrollers.MachineDeploymentController
	ControlPlanes      rkecontrollers.RKEControlPlaneController
	DynamicSchemas     mgmtcontrollers.DynamicSchemaController
	Secrets            corecontrollers.SecretController
	DynamicKinds       DynamicKinds
	Apply              Applier
	// Access decides which Secrets of other namespaces a cluster may use. Required.
	Access Access
	// InstanceID marks the Clusters of this instance.
	InstanceID string
	// Rival returns which other manager runs here, "" without one; see package rival. While another manager runs, no
	// cluster is claimed. Nil means that there is none.
	Rival func(ctx context.Context) (string, error)
	// DeletionDeadline is the time after which a machine that still exists is reported as overdue; 0 means 30 minutes.
	DeletionDeadline time.Duration
	// Disruptions counts the machines of pools that get another template; nil counts nothing.
	Disruptions *metrics.Disruptions
	// Now is the clock; nil means the system's.
	Now func() time.Time
}

const defaultDeletionDeadline = 30 * time.Minute

// claimRetry is the retry delay for a new cluster while another manager runs, because its end causes no event.
const claimRetry = time.Minute

// setKinds returns the kinds of objects in the set, desired or not, in the order in which they are written.
func setKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		rkev1.SchemeGroupVersion.WithKind("RKECluster"),
		rkev1.SchemeGroupVersion.WithKind("RKEControlPlane"),
		clusterv1.GroupVersion.WithKind("Cluster"),
		rkev1.SchemeGroupVersion.WithKind("RKEBootstrapTemplate"),
		clusterv1.GroupVersion.WithKind("MachineDeployment"),
		clusterv1.GroupVersion.WithKind("MachineHealthCheck"),
	}
}

type handler struct {
	Deps
	// lasso's handlers get no context
	ctx            context.Context
	clusters       provcontrollers.ClusterCache
	capiClusters   capicontrollers.ClusterCache
	machines       capicontrollers.MachineCache
	deployments    capicontrollers.MachineDeploymentCache
	controlPlanes  rkecontrollers.RKEControlPlaneCache
	dynamicSchemas mgmtcontrollers.DynamicSchemaCache
	secrets        corecontrollers.SecretCache
	replaced       replacements
	registered     time.Time
}

// Register adds the handlers, indexes and wake-ups. They end with ctx.
func Register(ctx context.Context, d Deps) error {
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.DeletionDeadline == 0 {
		d.DeletionDeadline = defaultDeletionDeadline
	}
	if d.Access == nil {
		return fmt.Errorf("register %s: nothing says which Secrets of other namespaces clusters may use", handlerName)
	}
	h := newHandler(d)
	h.ctx, h.registered = ctx, d.Now()
	if err := d.Apply.Watch(setKinds()...); err != nil {
		return fmt.Errorf("register %s: %w", handlerName, err)
	}
	h.index()
	d.Access.OnChange(func(cluster types.NamespacedName) { d.Clusters.EnqueueAfter(cluster.Namespace, cluster.Name, 0) })
	d.Clusters.OnChange(ctx, handlerName, h.onChange)
	return h.wake(ctx)
}

func newHandler(d Deps) *handler {
	return &handler{
		Deps:     d,
		clusters: d.Clusters.Cache(), capiClusters: d.CAPIClusters.Cache(), machines: d.Machines.Cache(),
		deployments: d.MachineDeployments.Cache(), controlPlanes: d.ControlPlanes.Cache(),
		dynamicSchemas: d.DynamicSchemas.Cache(), secrets: d.Secrets.Cache(),
	}
}

func (h *handler) index() {
	h.clusters.AddIndexer(provv1.IndexByCloudCredential, func(c *provv1.Cluster) ([]string, error) {
		return nonEmpty(c.Spec.CloudCredentialSecretName), nil
	})
	h.clusters.AddIndexer(provv1.IndexByMachinePoolCloudCredential, func(c *provv1.Cluster) ([]string, error) {
		return topology.Credentials(c), nil
	})
	h.clusters.AddIndexer(indexByReference, func(c *provv1.Cluster) ([]string, error) {
		var keys []string
		for _, ref := range tenancy.References(c) {
			keys = append(keys, ref.String())
		}
		return keys, nil
	})
	h.clusters.AddIndexer(provv1.IndexByNodeInfra, func(c *provv1.Cluster) ([]string, error) {
		return topology.InfraKeys(c), nil
	})
	h.clusters.AddIndexer(indexBySchema, func(c *provv1.Cluster) ([]string, error) {
		var names []string
		for _, ref := range topology.ConfigRefs(c) {
			names = append(names, ref.SchemaName())
		}
		return names, nil
	})
}

func nonEmpty(value string) []string {
	if value == "" {
		return nil
	}
	return []string{value}
}

// wake registers a wake-up for every fact that a cluster can wait for.
func (h *handler) wake(ctx context.Context) error {
	target := h.Clusters
	if err := wakeup.On(ctx, target, h.ofControlPlane, h.ControlPlanes); err != nil {
		return fmt.Errorf("watch control planes: %w", err)
	}
	if err := wakeup.On(ctx, target, wakeup.BySameName[*clusterv1.Cluster](), h.CAPIClusters); err != nil {
		return fmt.Errorf("watch Cluster API clusters: %w", err)
	}
	if err := wakeup.On(ctx, target, h.ofMachine, h.Machines); err != nil {
		return fmt.Errorf("watch machines: %w", err)
	}
	if err := wakeup.On(ctx, target, h.ofMachineDeployment, h.MachineDeployments); err != nil {
		return fmt.Errorf("watch machine deployments: %w", err)
	}
	bySchema := wakeup.ByIndex[*mgmtv3.DynamicSchema](h.clusters, indexBySchema, func(s *mgmtv3.DynamicSchema) string { return s.Name })
	if err := wakeup.On(ctx, target, bySchema, h.DynamicSchemas); err != nil {
		return fmt.Errorf("watch dynamic schemas: %w", err)
	}
	if err := wakeup.On(ctx, target, h.ofCredential, h.Secrets); err != nil {
		return fmt.Errorf("watch credentials: %w", err)
	}
	byConfig := wakeup.ByIndex[*unstructured.Unstructured](h.clusters, provv1.IndexByNodeInfra, func(u *unstructured.Unstructured) string {
		return topology.ConfigRef{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Name: u.GetName()}.IndexKey(u.GetNamespace())
	})
	h.DynamicKinds.OnInformer(func(gvk schema.GroupVersionKind, informer cache.SharedIndexInformer) {
		if gvk.GroupVersion().String() == topology.MachineConfigVersion {
			// It fails only for a stopped informer, whose kind no longer exists.
			_ = wakeup.OnInformer(ctx, target, byConfig, informer)
		}
	})
	return nil
}

func (h *handler) ofControlPlane(cp *rkev1.RKEControlPlane) []wakeup.Key {
	return []wakeup.Key{{Namespace: cp.Namespace, Name: cp.Spec.ClusterName}}
}

// ofMachine wakes only clusters that wait for the deletion of machines, or that depend on machines without a pool.
func (h *handler) ofMachine(m *clusterv1.Machine) []wakeup.Key {
	if m.DeletionTimestamp.IsZero() && !h.awaits(m) {
		return nil
	}
	return []wakeup.Key{{Namespace: m.Namespace, Name: m.Spec.ClusterName}}
}

func (h *handler) awaits(m *clusterv1.Machine) bool {
	if !registered(m) {
		return false
	}
	cluster, err := h.clusters.Get(m.Namespace, m.Spec.ClusterName)
	return err == nil && topology.CountsRegistered(cluster)
}

// ofMachineDeployment wakes clusters whose pool was deleted, or is scaled by another program while the cluster depends
// on it. It also wakes clusters whose pool gets other roles once its machines are gone.
func (h *handler) ofMachineDeployment(md *clusterv1.MachineDeployment) []wakeup.Key {
	_, scaled := md.Annotations[clusterv1.AutoscalerMinSizeAnnotation]
	if md.DeletionTimestamp.IsZero() && !scaled {
		cluster, err := h.clusters.Get(md.Namespace, md.Spec.ClusterName)
		if err != nil || !topology.LimitsFollow(cluster, md.Name) && !topology.ChangesRoles(cluster, md) {
			return nil
		}
	}
	return []wakeup.Key{{Namespace: md.Namespace, Name: md.Spec.ClusterName}}
}

// ofCredential wakes the clusters that name a Secret as their credential.
func (h *handler) ofCredential(secret *corev1.Secret) []wakeup.Key {
	reference := secret.Name
	global := secret.Namespace == provv1.GlobalDataNamespace
	if global {
		reference = provv1.GlobalDataNamespace + ":" + secret.Name
	}
	keys := h.ofReferred(secret)
	for _, index := range []string{provv1.IndexByCloudCredential, provv1.IndexByMachinePoolCloudCredential} {
		found, err := h.clusters.GetByIndex(index, reference)
		if err != nil {
			continue
		}
		for _, cluster := range found {
			if global || cluster.Namespace == secret.Namespace {
				keys = append(keys, wakeup.Key{Namespace: cluster.Namespace, Name: cluster.Name})
			}
		}
	}
	return keys
}

// ofReferred wakes the clusters of other namespaces that name a Secret, because the Secret may grant them access.
func (h *handler) ofReferred(secret *corev1.Secret) []wakeup.Key {
	found, err := h.clusters.GetByIndex(indexByReference, secret.Namespace+"/"+secret.Name)
	if err != nil {
		return nil // the index is registered above
	}
	var keys []wakeup.Key
	for _, cluster := range found {
		keys = append(keys, wakeup.Key{Namespace: cluster.Namespace, Name: cluster.Name})
	}
	return keys
}

// onChange reconciles a Cluster. The order of its steps makes it safe to be killed after any of them.
func (h *handler) onChange(_ string, cluster *provv1.Cluster) (*provv1.Cluster, error) {
	if cluster == nil {
		return nil, nil
	}
	seen, err := h.gather(cluster)
	if err != nil {
		return cluster, err
	}
	if !h.manages(cluster, seen) {
		return cluster, nil
	}
	if !cluster.DeletionTimestamp.IsZero() {
		return h.remove(seen)
	}
	problems := seen.judge() // here, because each early return below reports the tolerated problems
	if len(seen.unserved) > 0 {
		return h.reportUnserved(seen)
	}
	if seen.unknown {
		return h.waitForAccess(seen, cluster)
	}
	if len(problems) > 0 {
		return h.report(seen, cluster, invalid(seen, topology.Explain(problems)))
	}
	prepared, err := h.prepare(seen)
	if err != nil {
		return cluster, err
	}
	if prepared.Spec.RKEConfig == nil || prepared.Status.ClusterName == "" {
		return prepared, nil // controller cluster sets the name, and that event requeues the Cluster
	}
	seen.input.Cluster = prepared
	return h.report(seen, prepared, h.apply(seen))
}

// manages reports that a cluster belongs to this instance, or will. While another manager runs, it requeues an
// unclaimed cluster.
func (h *handler) manages(cluster *provv1.Cluster, seen *facts) bool {
	owner := topology.Owner(cluster, h.InstanceID, seen.hasChildren())
	if owner == topology.Unclaimed && seen.rival != "" {
		h.Clusters.EnqueueAfter(cluster.Namespace, cluster.Name, claimRetry)
		return false
	}
	return owner != topology.Foreign
}

// waitForAccess waits for the answer whether the cluster may use Secrets of other namespaces. The answer wakes the
// cluster. A long wait is reported.
func (h *handler) waitForAccess(seen *facts, cluster *provv1.Cluster) (*provv1.Cluster, error) {
	if seen.unanswered == "" {
		return cluster, nil
	}
	return h.report(seen, cluster, outcome.Wait("", seen.unanswered, "answer of access"))
}

// isTemplate matches the kinds of node drivers' machine templates.
func isTemplate(gvk schema.GroupVersionKind) bool {
	return gvk.Group == "rke-machine.cattle.io" && strings.HasSuffix(gvk.Kind, "MachineTemplate")
}

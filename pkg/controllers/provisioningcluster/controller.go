package provisioningcluster

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	crdcontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/apiextensions.k8s.io/v1"
	corecontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/core/v1"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
	capicontrollers "github.com/drover-io/drover/pkg/generated/controllers/cluster.x-k8s.io/v1beta2"
	mgmtcontrollers "github.com/drover-io/drover/pkg/generated/controllers/management.cattle.io/v3"
	provcontrollers "github.com/drover-io/drover/pkg/generated/controllers/provisioning.cattle.io/v1"
	rkecontrollers "github.com/drover-io/drover/pkg/generated/controllers/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/access"
	"github.com/drover-io/drover/pkg/kube/applyset"
	"github.com/drover-io/drover/pkg/kube/ownwrites"
	"github.com/drover-io/drover/pkg/kube/rival"
	"github.com/drover-io/drover/pkg/observe/metrics"
)

// handlerName is also the id of the set of Cluster API objects, and part of the finalizer. It is persisted, do not
// change: another id would orphan every existing object.
const handlerName = "rke-cluster"

// managementSet is the id of the set of management objects. It is persisted, too.
const managementSet = "cluster-create"

// DynamicKinds reads and writes the kinds of node drivers, which are added and removed at run time.
type DynamicKinds interface {
	Get(gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error)
	Update(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error)
	Kinds() []schema.GroupVersionKind
	Synced(gvk schema.GroupVersionKind) bool
	OnInformer(f func(schema.GroupVersionKind, cache.SharedIndexInformer))
}

// Applier applies the sets of a cluster's objects.
type Applier interface {
	Watch(kinds ...schema.GroupVersionKind) error
	Apply(ctx context.Context, setID string, owner runtime.Object, refs applyset.OwnerRefs,
		kinds []schema.GroupVersionKind, objs []runtime.Object) (applyset.Result, error)
	PurgeLive(ctx context.Context, setID string, owner schema.GroupVersionKind, namespace, name string,
		kinds []schema.GroupVersionKind) error
	PurgeKept(ctx context.Context, setID string, owner schema.GroupVersionKind, namespace, name string,
		kinds []schema.GroupVersionKind) error
}

// Access decides which Secrets of other namespaces a cluster may use; access.Checker implements it.
type Access interface {
	Check(cluster *provv1.Cluster, secret types.NamespacedName, annotations map[string]string) (access.Verdict, string)
	OnChange(f func(cluster types.NamespacedName))
}

// Namespaces reads namespaces.
type Namespaces interface {
	Get(name string, options metav1.GetOptions) (*corev1.Namespace, error)
}

// Deps holds the controller's dependencies and settings.
type Deps struct {
	Clusters           provcontrollers.ClusterController
	ManagementClusters mgmtcontrollers.ClusterController
	CAPIClusters       capicontrollers.ClusterController
	Machines           capicontrollers.MachineController
	MachineDeployments capicontrollers.MachineDeploymentController
	ControlPlanes      rkecontrollers.RKEControlPlaneController
	DynamicSchemas     mgmtcontrollers.DynamicSchemaController
	Secrets            corecontrollers.SecretController
	// Snapshots are those whose configuration a restore puts back.
	Snapshots rkecontrollers.ETCDSnapshotController
	// CRDs say which kinds of other infrastructure providers exist. Nil means that all kinds exist.
	CRDs crdcontrollers.CustomResourceDefinitionController
	// Serves says whether a kind exists; nil means that CRDs say it. A Reader whose user may not read CRDs has its own.
	Serves func(schema.GroupKind) (bool, error)
	// PodSecurityTemplates are the templates that Clusters name.
	PodSecurityTemplates mgmtcontrollers.PodSecurityAdmissionConfigurationTemplateController
	// Namespaces are read from the API server before a requested name is taken.
	Namespaces   Namespaces
	DynamicKinds DynamicKinds
	Apply        Applier
	// Access decides which Secrets of other namespaces a cluster may use. Required.
	Access Access
	// InstanceID marks the Clusters of this instance.
	InstanceID string
	// Registry is the image registry of clusters that name none.
	Registry topology.Registry
	// Rival returns which other manager runs here, "" without one; see package rival. While another manager runs, no
	// cluster is claimed.
	Rival rival.Check
	// Disconnect ends the connection to a cluster whose machines are gone, before its management cluster is deleted.
	// Nil means that there is no connection.
	Disconnect func(cluster *provv1.Cluster) error
	// DeletionDeadline is the time after which a machine that still exists is reported as overdue; 0 means 30 minutes.
	DeletionDeadline time.Duration
	// Disruptions counts the machines of pools that get another template; nil counts nothing.
	Disruptions *metrics.Disruptions
	// Token draws a random token from the alphabet of package naming; nil means a cryptographically random one.
	Token func() (string, error)
	// Statuses remembers status writes. Sharing it with controller cluster avoids conflicts. Nil makes a new one.
	Statuses *ownwrites.Statuses
	// Now is the clock; nil means the system's.
	Now func() time.Time
}

const defaultDeletionDeadline = 30 * time.Minute

type handler struct {
	Deps
	// lasso's handlers get no context
	ctx            context.Context
	clusters       provcontrollers.ClusterCache
	management     mgmtcontrollers.ClusterCache
	capiClusters   capicontrollers.ClusterCache
	machines       capicontrollers.MachineCache
	deployments    capicontrollers.MachineDeploymentCache
	controlPlanes  rkecontrollers.RKEControlPlaneCache
	dynamicSchemas mgmtcontrollers.DynamicSchemaCache
	snapshots      rkecontrollers.ETCDSnapshotCache
	secrets        corecontrollers.SecretCache
	templates      mgmtcontrollers.PodSecurityAdmissionConfigurationTemplateCache
	released       releasedClusters
	replaced       replacements
	registered     time.Time
}

// Register adds the handler, indexes and wake-ups. They end with ctx. Controller cluster registers after this one, so
// that it sees what this one has just written.
func Register(ctx context.Context, d Deps) error {
	if d.Access == nil {
		return fmt.Errorf("register %s: nothing says which Secrets of other namespaces clusters may use", handlerName)
	}
	h := newHandler(d)
	h.ctx = ctx
	if err := d.Apply.Watch(append(managementKinds(), setKinds()...)...); err != nil {
		return fmt.Errorf("register %s: %w", handlerName, err)
	}
	h.index()
	d.Access.OnChange(func(cluster types.NamespacedName) {
		d.Clusters.EnqueueAfter(cluster.Namespace, cluster.Name, 0)
	})
	d.Clusters.OnChange(ctx, handlerName, h.onChange)
	return h.wake(ctx)
}

func newHandler(d Deps) *handler {
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Statuses == nil {
		d.Statuses = ownwrites.NewStatuses()
	}
	if d.Token == nil {
		d.Token = randomToken
	}
	if d.DeletionDeadline == 0 {
		d.DeletionDeadline = defaultDeletionDeadline
	}
	if d.Serves == nil {
		d.Serves = servedBy(d.CRDs)
	}
	return &handler{
		Deps: d, registered: d.Now(),
		clusters: d.Clusters.Cache(), management: d.ManagementClusters.Cache(), capiClusters: d.CAPIClusters.Cache(),
		machines: d.Machines.Cache(), deployments: d.MachineDeployments.Cache(), controlPlanes: d.ControlPlanes.Cache(),
		dynamicSchemas: d.DynamicSchemas.Cache(), snapshots: d.Snapshots.Cache(), secrets: d.Secrets.Cache(),
		templates: d.PodSecurityTemplates.Cache(),
	}
}

// onChange reconciles a Cluster. The order of its writes makes it safe to be killed after any of them.
func (h *handler) onChange(_ string, cluster *provv1.Cluster) (*provv1.Cluster, error) {
	if cluster == nil {
		return nil, nil
	}
	if h.Statuses.Behind(cluster, h.Now()) {
		return cluster, nil // the event of the newer version requeues it
	}
	facts, err := h.gather(cluster)
	if err != nil {
		return cluster, err
	}
	decision := facts.decide(h.InstanceID)
	if decision.after > 0 {
		h.Clusters.EnqueueAfter(cluster.Namespace, cluster.Name, decision.after)
	}
	switch decision.step {
	case remove:
		return h.remove(facts)
	case hold, translate:
		done, err := h.act(facts, decision)
		if err != nil || done.waits {
			return cluster, err
		}
		return h.report(facts, decision, done)
	default:
		return cluster, nil
	}
}

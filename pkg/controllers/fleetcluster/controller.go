package fleetcluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	crdcontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/apiextensions.k8s.io/v1"
	corecontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/core/v1"
	corev1 "k8s.io/api/core/v1"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/fleet"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/topology"
	mgmtcontrollers "github.com/drover-io/drover/pkg/generated/controllers/management.cattle.io/v3"
	provcontrollers "github.com/drover-io/drover/pkg/generated/controllers/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/applyset"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/kube/ownwrites"
	"github.com/drover-io/drover/pkg/kube/wakeup"
)

// handlerName is also the id of the apply set. It is persisted, do not change: another id would orphan every Fleet
// Cluster.
const handlerName = "fleet-cluster"

const (
	// indexByFleetCluster finds Clusters by namespace/name of their Fleet Cluster.
	indexByFleetCluster = "fleet-cluster"
	// indexByWorkspace finds Clusters by the namespace of their workspace, if that is not their own.
	indexByWorkspace = "fleet-workspace"
)

// Kinds reads and writes Fleet's kinds, which come and go; clients.Dynamic implements it.
type Kinds interface {
	Presence(gvk schema.GroupVersionKind, definition string) (clients.Presence, error)
	Get(gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error)
	Create(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error)
	OnInformer(f func(schema.GroupVersionKind, cache.SharedIndexInformer))
}

// Applier applies the set of a Cluster, which is its Fleet Cluster; applyset.Set implements it.
type Applier interface {
	Apply(ctx context.Context, setID string, owner runtime.Object, refs applyset.OwnerRefs,
		kinds []schema.GroupVersionKind, objs []runtime.Object) (applyset.Result, error)
	PurgeLive(ctx context.Context, setID string, owner schema.GroupVersionKind, namespace, name string,
		kinds []schema.GroupVersionKind) error
	End(setID string, owner schema.GroupVersionKind, namespace, name string) error
}

// Deps holds the controller's dependencies and settings.
type Deps struct {
	Clusters           provcontrollers.ClusterController
	ManagementClusters mgmtcontrollers.ClusterController
	Secrets            corecontrollers.SecretController
	Namespaces         corecontrollers.NamespaceController
	CRDs               crdcontrollers.CustomResourceDefinitionController
	Kinds              Kinds
	Apply              Applier
	// InstanceID marks the Clusters of this instance.
	InstanceID string
	// Statuses remembers status writes of Clusters. The controllers of Clusters share it, which avoids conflicts. Nil
	// makes a new one.
	Statuses *ownwrites.Statuses
	// Now is the clock; nil means the system's.
	Now func() time.Time
}

type handler struct {
	Deps
	// lasso's handlers get no context
	ctx        context.Context
	clusters   provcontrollers.ClusterCache
	management mgmtcontrollers.ClusterCache
	secrets    corecontrollers.SecretCache
	namespaces corecontrollers.NamespaceCache
}

var clusterKind = provv1.SchemeGroupVersion.WithKind("Cluster")

// Controller is the controller.
type Controller struct{ handler *handler }

// New returns a Controller. Its work ends with ctx.
func New(ctx context.Context, d Deps) *Controller {
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Statuses == nil {
		d.Statuses = ownwrites.NewStatuses()
	}
	return &Controller{&handler{
		Deps: d, ctx: ctx, clusters: d.Clusters.Cache(), management: d.ManagementClusters.Cache(),
		secrets: d.Secrets.Cache(), namespaces: d.Namespaces.Cache(),
	}}
}

// Register adds the handler, its indexes and its wake-ups.
func (c *Controller) Register() error {
	h := c.handler
	h.clusters.AddIndexer(provv1.IndexByCluster, topology.ByManagementCluster)
	h.clusters.AddIndexer(indexByFleetCluster, func(c *provv1.Cluster) ([]string, error) {
		return []string{topology.Workspace(c) + "/" + c.Name}, nil
	})
	h.clusters.AddIndexer(indexByWorkspace, func(c *provv1.Cluster) ([]string, error) {
		if workspace := topology.Workspace(c); workspace != c.Namespace {
			return []string{workspace}, nil
		}
		return nil, nil
	})
	h.Clusters.OnChange(h.ctx, handlerName, h.onChange)
	return h.wake(h.ctx)
}

func (h *handler) wake(ctx context.Context) error {
	h.Kinds.OnInformer(func(gvk schema.GroupVersionKind, informer cache.SharedIndexInformer) {
		if gvk == fleet.ClusterKind {
			// It fails only for a stopped informer, whose kind no longer exists.
			_ = wakeup.OnInformer(ctx, h.Clusters, h.ofFleetCluster, informer)
		}
	})
	byManagement := wakeup.ByIndex[*mgmtv3.Cluster](h.clusters, provv1.IndexByCluster, (*mgmtv3.Cluster).GetName)
	byWorkspace := wakeup.ByIndex[*corev1.Namespace](h.clusters, indexByWorkspace, (*corev1.Namespace).GetName)
	return errors.Join(
		wakeup.On(ctx, h.Clusters, byManagement, h.ManagementClusters),
		wakeup.On(ctx, h.Clusters, ofKubeconfig, h.Secrets),
		wakeup.On(ctx, h.Clusters, byWorkspace, h.Namespaces),
		wakeup.On(ctx, h.Clusters, h.ofDefinition, h.CRDs),
	)
}

// ofFleetCluster wakes the Clusters that ask for the name of a Fleet Cluster, and the Cluster for which it was made.
func (h *handler) ofFleetCluster(object *unstructured.Unstructured) []wakeup.Key {
	keys := wakeup.Found(h.clusters, indexByFleetCluster, object.GetNamespace()+"/"+object.GetName())
	if set, namespace, name := applyset.OwnerOf(object); set == handlerName {
		keys = append(keys, wakeup.Key{Namespace: namespace, Name: name})
	}
	return keys
}

func ofKubeconfig(secret *corev1.Secret) []wakeup.Key {
	if cluster, ok := naming.ClusterOfKubeconfig(secret.Name); ok {
		return []wakeup.Key{{Namespace: secret.Namespace, Name: cluster}}
	}
	return nil
}

// ofDefinition wakes all Clusters when Fleet comes or goes.
func (h *handler) ofDefinition(crd *apiextv1.CustomResourceDefinition) []wakeup.Key {
	if !fleet.IsDefinition(crd) {
		return nil
	}
	all, err := h.clusters.List(metav1.NamespaceAll, labels.Everything())
	if err != nil {
		return nil // the list needs no index, so it cannot fail
	}
	return wakeup.Keys(all)
}

func (h *handler) onChange(key string, cluster *provv1.Cluster) (*provv1.Cluster, error) {
	if cluster == nil {
		namespace, name, _ := strings.Cut(key, "/")
		return nil, h.Apply.End(handlerName, clusterKind, namespace, name)
	}
	if !topology.IsOurs(cluster, h.InstanceID) || h.Statuses.Behind(cluster, h.Now()) {
		return cluster, nil // the event of the newer version requeues it
	}
	facts, err := h.gather(cluster)
	if err != nil {
		return cluster, err
	}
	decision := facts.decide()
	if decision.after > 0 {
		h.Clusters.EnqueueAfter(cluster.Namespace, cluster.Name, decision.after)
	}
	if decision.step == ignore {
		return cluster, nil
	}
	return h.report(facts, h.act(facts, decision))
}

// Rehearse runs the handler once for a Cluster. With Deps from a stage (package rehearsal), it only lists what it would
// write.
func Rehearse(ctx context.Context, d Deps, cluster *provv1.Cluster) error {
	_, err := New(ctx, d).handler.onChange("", cluster)
	return err
}

// Remove deletes the Fleet Cluster of a Cluster that is being deleted. It asks the API server, because the cache may
// lack a new object, which would then remain forever.
func (c *Controller) Remove(cluster *provv1.Cluster) error {
	h := c.handler
	presence, err := h.Kinds.Presence(fleet.ClusterKind, fleet.Definition)
	if err != nil || presence == clients.Absent {
		return err
	}
	if err := h.Apply.PurgeLive(h.ctx, handlerName, clusterKind, cluster.Namespace, cluster.Name,
		[]schema.GroupVersionKind{fleet.ClusterKind}); err != nil {
		return fmt.Errorf("delete the Fleet Cluster of %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	return nil
}

package fleetworkspace

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	crdcontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/apiextensions.k8s.io/v1"
	corecontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/core/v1"
	corev1 "k8s.io/api/core/v1"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/fleet"
	"github.com/drover-io/drover/pkg/decide/topology"
	capicontrollers "github.com/drover-io/drover/pkg/generated/controllers/cluster.x-k8s.io/v1beta2"
	mgmtcontrollers "github.com/drover-io/drover/pkg/generated/controllers/management.cattle.io/v3"
	provcontrollers "github.com/drover-io/drover/pkg/generated/controllers/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/applyset"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/kube/ownwrites"
	"github.com/drover-io/drover/pkg/kube/rival"
	"github.com/drover-io/drover/pkg/kube/wakeup"
)

const (
	// Hosts persist handlerName in metrics, do not change.
	handlerName = "fleet-workspace"
	// workspaceSet is the id of the set of a FleetWorkspace's objects. It is persisted, too.
	workspaceSet = "workspace"
)

// indexMembers finds Clusters by the names of the namespaces that must stay for them.
const indexMembers = "fleet-workspace-members"

// Kinds reads Fleet's kinds, which come and go; clients.Dynamic implements it.
type Kinds interface {
	Presence(gvk schema.GroupVersionKind, definition string) (clients.Presence, error)
	AnyIn(gvk schema.GroupVersionKind, namespace string) bool
	List(gvk schema.GroupVersionKind, namespace string, selector labels.Selector) ([]*unstructured.Unstructured, error)
	OnInformer(f func(schema.GroupVersionKind, cache.SharedIndexInformer))
}

// Applier applies the set of a FleetWorkspace; applyset.Set implements it.
type Applier interface {
	Watch(kinds ...schema.GroupVersionKind) error
	Apply(ctx context.Context, setID string, owner runtime.Object, refs applyset.OwnerRefs,
		kinds []schema.GroupVersionKind, objs []runtime.Object) (applyset.Result, error)
	PurgeLive(ctx context.Context, setID string, owner schema.GroupVersionKind, namespace, name string,
		kinds []schema.GroupVersionKind) error
}

// Deps holds the controller's dependencies.
type Deps struct {
	Workspaces   mgmtcontrollers.FleetWorkspaceController
	Namespaces   corecontrollers.NamespaceController
	Clusters     provcontrollers.ClusterController
	CAPIClusters capicontrollers.ClusterController
	CRDs         crdcontrollers.CustomResourceDefinitionController
	Kinds        Kinds
	Apply        Applier
	// Rival returns which other manager runs here, "" without one; see package rival.
	Rival rival.Check
	// Now is the clock; nil means the system's.
	Now func() time.Time
}

type handler struct {
	Deps
	// lasso's handlers get no context
	ctx          context.Context
	workspaces   mgmtcontrollers.FleetWorkspaceCache
	namespaces   corecontrollers.NamespaceCache
	clusters     provcontrollers.ClusterCache
	capiClusters capicontrollers.ClusterCache
	written      *ownwrites.Statuses
	// other is the last answer of Rival, and asked its time.
	mu    sync.Mutex
	other bool
	asked time.Time
}

var workspaceKind = mgmtv3.SchemeGroupVersion.WithKind("FleetWorkspace")

// Register adds the handler, its index and its wake-ups. They end with ctx.
func Register(ctx context.Context, d Deps) error {
	if d.Now == nil {
		d.Now = time.Now
	}
	if err := d.Apply.Watch(fleet.WorkspaceKinds()...); err != nil {
		return fmt.Errorf("register %s: %w", handlerName, err)
	}
	h := &handler{
		Deps: d, ctx: ctx, workspaces: d.Workspaces.Cache(), namespaces: d.Namespaces.Cache(),
		clusters: d.Clusters.Cache(), capiClusters: d.CAPIClusters.Cache(), written: ownwrites.NewStatuses(),
	}
	h.clusters.AddIndexer(indexMembers, func(c *provv1.Cluster) ([]string, error) { return namespacesOf(c), nil })
	d.Workspaces.OnChange(ctx, handlerName, h.onChange)
	return h.wake(ctx)
}

// namespacesOf returns the namespaces that a Cluster needs: its own, and that of its workspace.
func namespacesOf(cluster *provv1.Cluster) []string {
	if workspace := topology.Workspace(cluster); workspace != cluster.Namespace {
		return []string{cluster.Namespace, workspace}
	}
	return []string{cluster.Namespace}
}

func (h *handler) wake(ctx context.Context) error {
	target := wakeup.ClusterScoped(h.Workspaces)
	h.Kinds.OnInformer(func(gvk schema.GroupVersionKind, informer cache.SharedIndexInformer) {
		if gvk == fleet.ClusterKind || gvk == fleet.BundleKind {
			// It fails only for a stopped informer, whose kind no longer exists.
			_ = wakeup.OnInformer(ctx, target, byNamespace[*unstructured.Unstructured], informer)
		}
	})
	byName := func(n *corev1.Namespace) []wakeup.Key { return []wakeup.Key{{Name: n.Name}} }
	ofCluster := func(c *provv1.Cluster) []wakeup.Key { return keys(namespacesOf(c)) }
	return errors.Join(
		wakeup.On(ctx, target, byName, h.Namespaces),
		wakeup.On(ctx, target, ofCluster, h.Clusters),
		wakeup.On(ctx, target, byNamespace[*clusterv1.Cluster], h.CAPIClusters),
		wakeup.On(ctx, target, h.ofDefinition, h.CRDs),
	)
}

func byNamespace[T wakeup.Object](object T) []wakeup.Key {
	return keys([]string{object.GetNamespace()})
}

func keys(names []string) []wakeup.Key {
	out := make([]wakeup.Key, 0, len(names))
	for _, name := range names {
		out = append(out, wakeup.Key{Name: name})
	}
	return out
}

// ofDefinition wakes all FleetWorkspaces when Fleet comes or goes.
func (h *handler) ofDefinition(crd *apiextv1.CustomResourceDefinition) []wakeup.Key {
	if !fleet.IsDefinition(crd) {
		return nil
	}
	all, err := h.workspaces.List(labels.Everything())
	if err != nil {
		return nil // the list needs no index, so it cannot fail
	}
	return wakeup.Keys(all)
}

func (h *handler) onChange(name string, workspace *mgmtv3.FleetWorkspace) (*mgmtv3.FleetWorkspace, error) {
	if workspace != nil && h.written.Behind(workspace, h.Now()) {
		return workspace, nil // the event of the newer version requeues it
	}
	facts, err := h.gather(name, workspace)
	if err != nil {
		return workspace, err
	}
	decided := facts.decide()
	if other, err := h.isOthers(facts, decided); err != nil || other {
		h.Workspaces.EnqueueAfter(name, rivalAgain)
		return workspace, err
	}
	if decided.after > 0 {
		h.Workspaces.EnqueueAfter(name, decided.after)
	}
	workspace, end := h.act(facts, decided)
	if workspace == nil || decided.silent {
		return workspace, end
	}
	return h.report(facts, workspace, decided, end)
}

const (
	// rivalFresh is how long an answer of Rival counts.
	rivalFresh = 30 * time.Second
	// rivalAgain is the interval at which Drover looks whether another manager still runs.
	rivalAgain = 5 * time.Minute
)

// isOthers reports whether another manager keeps the FleetWorkspaces. It uses the same marks, and the two would undo
// each other's changes without end. A deletion that Drover holds continues.
func (h *handler) isOthers(facts *Facts, decided decision) (bool, error) {
	if facts.workspace == nil && decided.step == leave ||
		facts.workspace != nil && !facts.workspace.DeletionTimestamp.IsZero() {
		return false, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if facts.now.Before(h.asked.Add(rivalFresh)) {
		return h.other, nil
	}
	other, err := h.Rival.Running(h.ctx)
	if err != nil {
		return false, fmt.Errorf("look for another manager of FleetWorkspace %s: %w", facts.name, err)
	}
	h.other, h.asked = other != "", facts.now
	return h.other, nil
}

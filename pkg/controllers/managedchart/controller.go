package managedchart

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	crdcontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/apiextensions.k8s.io/v1"
	corecontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/core/v1"
	corev1 "k8s.io/api/core/v1"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/fleet"
	mgmtcontrollers "github.com/drover-io/drover/pkg/generated/controllers/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/kube/ownwrites"
	"github.com/drover-io/drover/pkg/kube/rival"
	"github.com/drover-io/drover/pkg/kube/wakeup"
	"github.com/drover-io/drover/pkg/reach/chartrepo"
)

// Hosts persist handlerName in metrics, do not change.
const handlerName = "managed-chart"

const (
	indexSecret = "managed-chart-by-secret"
	indexBundle = "managed-chart-by-bundle"
)

// Kinds reads and writes Fleet's kinds, which come and go; clients.Dynamic implements it.
type Kinds interface {
	Presence(gvk schema.GroupVersionKind, definition string) (clients.Presence, error)
	Get(gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error)
	CreateStrict(ctx context.Context, obj *unstructured.Unstructured) error
	PatchStrict(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string, patch []byte) error
	OnInformer(f func(schema.GroupVersionKind, cache.SharedIndexInformer))
}

// Fetch downloads a chart; chartrepo.Client implements it.
type Fetch func(ctx context.Context, r chartrepo.Request, known string) (*chartrepo.Chart, error)

// Deps holds the controller's dependencies.
type Deps struct {
	ManagedCharts mgmtcontrollers.ManagedChartController
	Secrets       corecontrollers.SecretController
	CRDs          crdcontrollers.CustomResourceDefinitionController
	Kinds         Kinds
	Fetch         Fetch
	// Rival returns which other manager runs here, "" without one; see package rival.
	Rival rival.Check
	// Now is the clock; nil means the system's.
	Now func() time.Time
}

type handler struct {
	Deps
	// lasso's handlers get no context
	ctx       context.Context
	charts    mgmtcontrollers.ManagedChartCache
	secrets   corecontrollers.SecretCache
	downloads *downloads
	written   *ownwrites.Statuses

	mu sync.Mutex
	// sent has the latest patch of each Bundle.
	sent map[types.NamespacedName]string
}

// Register adds the handler, its indexes and its wake-ups. They end with ctx.
func Register(ctx context.Context, d Deps) error {
	if d.Now == nil {
		d.Now = time.Now
	}
	h := &handler{Deps: d, ctx: ctx, charts: d.ManagedCharts.Cache(), secrets: d.Secrets.Cache(),
		written: ownwrites.NewStatuses(), sent: map[types.NamespacedName]string{}}
	h.downloads = newDownloads(ctx, d.Fetch, d.Now, func(key types.NamespacedName) {
		d.ManagedCharts.EnqueueAfter(key.Namespace, key.Name, 0)
	})
	h.charts.AddIndexer(indexSecret, func(chart *mgmtv3.ManagedChart) ([]string, error) {
		if chart.Spec.HelmSecretName == "" {
			return nil, nil
		}
		return []string{chart.Namespace + "/" + chart.Spec.HelmSecretName}, nil
	})
	h.charts.AddIndexer(indexBundle, func(chart *mgmtv3.ManagedChart) ([]string, error) {
		return []string{chart.Namespace + "/" + fleet.BundleName(chart.Name)}, nil
	})
	d.ManagedCharts.OnChange(ctx, handlerName, h.onChange)
	return h.wake(ctx)
}

func (h *handler) wake(ctx context.Context) error {
	ofBundle := wakeup.ByIndex[*unstructured.Unstructured](h.charts, indexBundle, nameOf[*unstructured.Unstructured])
	h.Kinds.OnInformer(func(gvk schema.GroupVersionKind, informer cache.SharedIndexInformer) {
		if gvk == fleet.BundleKind {
			// It fails only for a stopped informer, whose kind no longer exists.
			_ = wakeup.OnInformer(ctx, h.ManagedCharts, ofBundle, informer)
		}
	})
	return errors.Join(
		wakeup.On(ctx, h.ManagedCharts, wakeup.ByIndex[*corev1.Secret](h.charts, indexSecret, nameOf[*corev1.Secret]),
			h.Secrets),
		wakeup.On(ctx, h.ManagedCharts, h.ofDefinition, h.CRDs),
	)
}

func nameOf[T wakeup.Object](object T) string { return object.GetNamespace() + "/" + object.GetName() }

// ofDefinition wakes all ManagedCharts when Fleet comes or goes.
func (h *handler) ofDefinition(crd *apiextv1.CustomResourceDefinition) []wakeup.Key {
	if crd.Name != fleet.BundleDefinition {
		return nil
	}
	all, err := h.charts.List(metav1.NamespaceAll, labels.Everything())
	if err != nil {
		return nil // the list needs no index, so it cannot fail
	}
	return wakeup.Keys(all)
}

func (h *handler) onChange(key string, chart *mgmtv3.ManagedChart) (*mgmtv3.ManagedChart, error) {
	if chart == nil || chart.DeletionTimestamp != nil {
		namespace, name, _ := strings.Cut(key, "/")
		h.forget(types.NamespacedName{Namespace: namespace, Name: name})
		return chart, nil // the garbage collector deletes the Bundle
	}
	if h.written.Behind(chart, h.Now()) {
		return chart, nil // the event of the newer version requeues it
	}
	facts, err := h.gather(chart)
	if err != nil {
		return chart, err
	}
	decided := facts.decide()
	if decided.after > 0 {
		h.ManagedCharts.EnqueueAfter(chart.Namespace, chart.Name, decided.after)
	}
	if decided.silent {
		return chart, nil
	}
	return h.act(facts, decided)
}

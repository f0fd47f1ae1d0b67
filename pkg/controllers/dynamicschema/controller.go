package dynamicschema

import (
	"context"
	"fmt"
	"time"

	crdcontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/apiextensions.k8s.io/v1"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	mgmtcontrollers "github.com/drover-io/drover/pkg/generated/controllers/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/kube/applyset"
	"github.com/drover-io/drover/pkg/kube/wakeup"
)

// handlerName is the id of the apply set. It is persisted, do not change: another id would orphan every existing CRD.
const handlerName = "dynamic-driver-crd"

const (
	// lookAgain is the retry interval for a CRD that stays only because it has objects.
	lookAgain = time.Minute
	// lookSoon is the retry interval for a CRD whose objects are still unknown.
	lookSoon = 3 * time.Second
)

// Applier applies the set of a schema's CRDs; applyset.Set implements it.
type Applier interface {
	Watch(kinds ...schema.GroupVersionKind) error
	Apply(ctx context.Context, setID string, owner runtime.Object, refs applyset.OwnerRefs,
		kinds []schema.GroupVersionKind, objs []runtime.Object) (applyset.Result, error)
	Purge(ctx context.Context, setID string, owner schema.GroupVersionKind, namespace, name string,
		kinds []schema.GroupVersionKind) (applyset.Result, error)
}

// Objects finds objects of kinds that are added at run time; clients.Dynamic implements it.
type Objects interface {
	Synced(gvk schema.GroupVersionKind) bool
	List(gvk schema.GroupVersionKind, namespace string, selector labels.Selector) ([]*unstructured.Unstructured, error)
	AnyLive(ctx context.Context, gvk schema.GroupVersionKind) (bool, error)
}

// Deps holds the controller's dependencies.
type Deps struct {
	DynamicSchemas mgmtcontrollers.DynamicSchemaController
	CRDs           crdcontrollers.CustomResourceDefinitionController
	Objects        Objects
	Apply          Applier
}

type handler struct {
	Deps
	// lasso's handlers get no context
	ctx     context.Context
	schemas mgmtcontrollers.DynamicSchemaCache
	crds    crdcontrollers.CustomResourceDefinitionCache
}

var (
	definitionKind = apiextv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")
	schemaKind     = mgmtv3.SchemeGroupVersion.WithKind("DynamicSchema")
)

// Register adds the handler and its wake-ups. They end with ctx.
func Register(ctx context.Context, d Deps) error {
	if err := d.Apply.Watch(definitionKind); err != nil {
		return fmt.Errorf("register %s: %w", handlerName, err)
	}
	h := &handler{Deps: d, ctx: ctx, schemas: d.DynamicSchemas.Cache(), crds: d.CRDs.Cache()}
	d.DynamicSchemas.OnChange(ctx, handlerName, h.onChange)
	target := wakeup.ClusterScoped(d.DynamicSchemas)
	if err := wakeup.On(ctx, target, h.ofList, d.DynamicSchemas); err != nil {
		return fmt.Errorf("watch the list of drivers: %w", err)
	}
	if err := wakeup.On(ctx, target, ofDefinition, d.CRDs); err != nil {
		return fmt.Errorf("watch CRDs: %w", err)
	}
	return nil
}

// ofList wakes all schemas when the list of drivers changes.
func (h *handler) ofList(changed *mgmtv3.DynamicSchema) []wakeup.Key {
	if changed.Name != driverschema.NodeTemplateConfigs.Name {
		return nil
	}
	all, err := h.schemas.List(labels.Everything())
	if err != nil {
		return nil // the list needs no index, so it cannot fail
	}
	return wakeup.Keys(all)
}

func ofDefinition(crd *apiextv1.CustomResourceDefinition) []wakeup.Key {
	if name := ownerOf(crd); name != "" {
		return []wakeup.Key{{Name: name}}
	}
	return nil
}

func (h *handler) onChange(name string, obj *mgmtv3.DynamicSchema) (*mgmtv3.DynamicSchema, error) {
	snapshot, err := h.gather(name, obj)
	if err != nil || snapshot.undecided {
		return obj, err
	}
	keptFor, err := h.act(snapshot)
	if err != nil {
		return obj, err
	}
	h.report(snapshot, keptFor)
	return obj, nil
}

package dynamicschema

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rancher/wrangler/v3/pkg/generic"
	"github.com/rancher/wrangler/v3/pkg/generic/fake"
	"go.uber.org/mock/gomock"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/kube/applyset"
)

// world holds the caches' content and records writes.
type world struct {
	list     *mgmtv3.DynamicSchema
	crds     []*apiextv1.CustomResourceDefinition
	synced   bool
	objects  []*unstructured.Unstructured
	live     bool  // an object exists that the caches do not show yet
	liveErr  error // the API server's answer instead
	applyErr error

	writes   []string
	enqueued time.Duration
}

func (w *world) Watch(...schema.GroupVersionKind) error { return nil }

func (w *world) Apply(_ context.Context, setID string, _ runtime.Object, refs applyset.OwnerRefs,
	_ []schema.GroupVersionKind, objs []runtime.Object) (applyset.Result, error) {
	if refs != applyset.NoOwnerRef {
		return applyset.Result{},
			errors.New("the CRDs have an owner, so the garbage collector would delete them with their schema")
	}
	for _, obj := range objs {
		crd, ok := obj.(*unstructured.Unstructured)
		if !ok || crd.Object["status"] != nil {
			return applyset.Result{}, errors.New("the applied CRD has a status, so it never settles")
		}
		w.writes = append(w.writes, setID+" "+crd.GetName())
	}
	return applyset.Result{}, w.applyErr
}

func (w *world) Purge(_ context.Context, setID string, owner schema.GroupVersionKind, _, name string,
	_ []schema.GroupVersionKind) (applyset.Result, error) {
	w.writes = append(w.writes, setID+" purge "+owner.Kind+" "+name)
	return applyset.Result{}, w.applyErr
}

func (w *world) Synced(schema.GroupVersionKind) bool { return w.synced }

func (w *world) List(schema.GroupVersionKind, string, labels.Selector) ([]*unstructured.Unstructured, error) {
	return w.objects, nil
}

func (w *world) AnyLive(context.Context, schema.GroupVersionKind) (bool, error) {
	return w.live, w.liveErr
}

func (w *world) register(t *testing.T) generic.ObjectHandler[*mgmtv3.DynamicSchema] {
	t.Helper()
	ctrl := gomock.NewController(t)
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{}, &mgmtv3.DynamicSchema{}, 0, cache.Indexers{})

	var handle generic.ObjectHandler[*mgmtv3.DynamicSchema]
	schemas := fake.NewMockNonNamespacedControllerInterface[*mgmtv3.DynamicSchema, *mgmtv3.DynamicSchemaList](ctrl)
	schemas.EXPECT().OnChange(gomock.Any(), "dynamic-driver-crd", gomock.Any()).Do(
		func(_ context.Context, _ string, h generic.ObjectHandler[*mgmtv3.DynamicSchema]) { handle = h })
	schemas.EXPECT().EnqueueAfter(gomock.Any(), gomock.Any()).Do(func(_ string, after time.Duration) {
		w.enqueued = after
	}).AnyTimes()
	schemas.EXPECT().Informer().Return(informer).AnyTimes()
	schemaCache := fake.NewMockNonNamespacedCacheInterface[*mgmtv3.DynamicSchema](ctrl)
	schemaCache.EXPECT().Get("nodetemplateconfig").DoAndReturn(func(string) (*mgmtv3.DynamicSchema, error) {
		if w.list == nil {
			return nil, apierrors.NewNotFound(schema.GroupResource{}, "nodetemplateconfig")
		}
		return w.list, nil
	}).AnyTimes()
	schemas.EXPECT().Cache().Return(schemaCache).AnyTimes()

	crds := fake.NewMockNonNamespacedControllerInterface[*apiextv1.CustomResourceDefinition,
		*apiextv1.CustomResourceDefinitionList](ctrl)
	crdCache := fake.NewMockNonNamespacedCacheInterface[*apiextv1.CustomResourceDefinition](ctrl)
	crdCache.EXPECT().List(gomock.Any()).DoAndReturn(func(labels.Selector) ([]*apiextv1.CustomResourceDefinition,
		error) {
		return w.crds, nil
	}).AnyTimes()
	crds.EXPECT().Cache().Return(crdCache).AnyTimes()
	crds.EXPECT().Informer().Return(informer).AnyTimes()

	if err := Register(t.Context(), Deps{DynamicSchemas: schemas, CRDs: crds, Objects: w, Apply: w}); err != nil {
		t.Fatal(err)
	}
	return handle
}

func simSchema() *mgmtv3.DynamicSchema {
	return &mgmtv3.DynamicSchema{
		ObjectMeta: metav1.ObjectMeta{Name: "simconfig", UID: "1"},
		Spec:       mgmtv3.DynamicSchemaSpec{ResourceFields: map[string]mgmtv3.Field{"size": {Type: "string"}}},
	}
}

// newWorld has the driver sim, active and with its kinds installed.
func newWorld(edits ...func(*world)) *world {
	spec, _ := driverschema.NodeTemplateConfigs.With(mgmtv3.DynamicSchemaSpec{}, "simConfig", "simconfig", true)
	w := &world{list: &mgmtv3.DynamicSchema{Spec: spec}, synced: true, crds: driverschema.CRDs("sim", simSchema().Spec)}
	for _, crd := range w.crds {
		crd.Annotations = map[string]string{
			"objectset.rio.cattle.io/id": "dynamic-driver-crd", "objectset.rio.cattle.io/owner-name": "simconfig",
			"objectset.rio.cattle.io/owner-gvk": "management.cattle.io/v3, Kind=DynamicSchema",
		}
	}
	// The controller ignores CRDs that other programs made.
	w.crds = append(w.crds, &apiextv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "others"}})
	for _, edit := range edits {
		edit(w)
	}
	return w
}

func TestOnChange(t *testing.T) {
	t.Parallel()
	installs := []string{
		"dynamic-driver-crd simconfigs.rke-machine-config.cattle.io",
		"dynamic-driver-crd simmachines.rke-machine.cattle.io",
		"dynamic-driver-crd simmachinetemplates.rke-machine.cattle.io",
	}
	purge := []string{"dynamic-driver-crd purge DynamicSchema simconfig"}
	inactive := func(w *world) { w.list.Spec.ResourceFields = nil }
	used := func(w *world) { w.objects = []*unstructured.Unstructured{{}} }
	notInstalled := func(w *world) { w.crds = nil }
	for name, test := range map[string]struct {
		edits        []func(*world)
		gone         bool
		wantWrites   []string
		wantEnqueued time.Duration
		wantErr      string
	}{
		"an active driver has kinds": {wantWrites: installs},
		"an active driver with machines has kinds": {edits: []func(*world){used},
			wantWrites: installs},
		"a driver that was never active has no kinds": {edits: []func(*world){inactive,
			notInstalled}},
		"without a list, no driver is active": {
			edits: []func(*world){func(w *world) { w.list = nil }, notInstalled}},
		"a deactivated driver loses its kinds": {edits: []func(*world){inactive},
			wantWrites: purge},
		"a deactivated driver with objects keeps its kinds": {edits: []func(*world){inactive,
			used}, wantEnqueued: lookAgain},
		"a deactivated driver keeps its kinds until the caches are synced": {edits: []func(*world){inactive,
			func(w *world) { w.synced = false }}, wantEnqueued: lookSoon},
		"a deactivated driver with an object that the caches lack keeps its kinds": {edits: []func(*world){inactive,
			func(w *world) { w.live = true }}, wantEnqueued: lookAgain},
		"a deactivated driver keeps its kinds when the API server fails": {edits: []func(*world){inactive,
			func(w *world) { w.liveErr = errors.New("busy") }}, wantErr: "busy"},
		"a deleted driver loses its kinds": {gone: true, wantWrites: purge},
		"a deleted driver with objects keeps its kinds": {gone: true, edits: []func(*world){used},
			wantEnqueued: lookAgain},
		"a driver with another spelling in the list has no kinds": {edits: []func(*world){notInstalled, badName}},
		"a write that the API server refuses returns an error": {edits: []func(*world){func(w *world) {
			w.applyErr = errors.New("refused")
		}}, wantWrites: installs, wantErr: "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(test.edits...)
			handle := w.register(t)
			obj := simSchema()
			if test.gone {
				obj = nil
			}
			_, err := handle("simconfig", obj)
			if (err == nil) != (test.wantErr == "") || err != nil && !strings.Contains(err.Error(), test.wantErr) {
				t.Errorf("error is %v, want %q", err, test.wantErr)
			}
			if diff := cmp.Diff(test.wantWrites, w.writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if w.enqueued != test.wantEnqueued {
				t.Errorf("the handler requeues after %s, want %s", w.enqueued, test.wantEnqueued)
			}
		})
	}
}

func badName(w *world) {
	w.list.Spec.ResourceFields = map[string]mgmtv3.Field{"-simConfig": {}, "sim-Config": {}}
}

func TestWakeUps(t *testing.T) {
	t.Parallel()
	w := newWorld()
	if got := ofDefinition(w.crds[0]); len(got) != 1 || got[0].Name != "simconfig" {
		t.Errorf("a changed CRD wakes %v", got)
	}
	if got := ofDefinition(w.crds[3]); got != nil {
		t.Errorf("a foreign CRD wakes %v", got)
	}
}

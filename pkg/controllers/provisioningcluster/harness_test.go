package provisioningcluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rancher/wrangler/v3/pkg/generic"
	"github.com/rancher/wrangler/v3/pkg/generic/fake"
	"go.uber.org/mock/gomock"
	corev1 "k8s.io/api/core/v1"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	mgmtcontrollers "github.com/drover-io/drover/pkg/generated/controllers/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/kube/access"
	"github.com/drover-io/drover/pkg/kube/applyset"
	"github.com/drover-io/drover/pkg/observe/metrics"
)

const instance = "instance-1"

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// world holds the caches' content and records writes.
type world struct {
	t            *testing.T
	cluster      *provv1.Cluster
	capiCluster  *clusterv1.Cluster
	controlPlane *rkev1.RKEControlPlane
	machines     []*clusterv1.Machine
	deployments  []*clusterv1.MachineDeployment
	snapshots    map[string]*rkev1.ETCDSnapshot
	schemas      map[string]*mgmtv3.DynamicSchema
	templates    map[string]*mgmtv3.PodSecurityAdmissionConfigurationTemplate
	others       []*provv1.Cluster
	secrets      map[string]*corev1.Secret
	configs      map[string]*unstructured.Unstructured
	// providers are the served kinds of other infrastructure providers, as KIND.GROUP.
	providers map[string]bool
	applyErr  error
	patchErr  error
	unserved  bool
	clock     time.Time
	// uncached means that a CAPI Cluster exists that no cache shows yet.
	uncached bool
	// rival is another manager that runs here, rivalErr the error of finding out.
	rival    string
	rivalErr error
	access   Access
	// management is the management cluster in the cache.
	management *mgmtv3.Cluster

	// writes lists all writes, in order.
	writes  []string
	applied []runtime.Object
	kept    []applyset.Field
	after   time.Duration
	// updated lists what an apply reports as updated.
	updated []string
	metrics *prometheus.Registry
}

func notFound(name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, name)
}

func get[T any](found *T, name string) (*T, error) {
	if found == nil {
		return nil, notFound(name)
	}
	return found, nil
}

// register registers the controller with mocks and returns its handler.
func (w *world) register() generic.ObjectHandler[*provv1.Cluster] {
	w.t.Helper()
	ctrl := gomock.NewController(w.t)
	var handle generic.ObjectHandler[*provv1.Cluster]

	clusters := fake.NewMockControllerInterface[*provv1.Cluster, *provv1.ClusterList](ctrl)
	clusterCache := fake.NewMockCacheInterface[*provv1.Cluster](ctrl)
	clusterCache.EXPECT().AddIndexer(gomock.Any(), gomock.Any()).AnyTimes()
	clusterCache.EXPECT().GetByIndex(provv1.IndexByCluster, gomock.Any()).Return(nil, nil).AnyTimes()
	clusterCache.EXPECT().List(gomock.Any(), gomock.Any()).DoAndReturn(func(string, labels.Selector) ([]*provv1.Cluster,
		error) {
		return append(slices.Clone(w.others), w.cluster), nil
	}).AnyTimes()
	clusters.EXPECT().Cache().Return(clusterCache).AnyTimes()
	clusters.EXPECT().OnChange(gomock.Any(), handlerName, gomock.Any()).Do(
		func(_ context.Context, _ string, h generic.ObjectHandler[*provv1.Cluster]) { handle = h })
	clusters.EXPECT().Patch("fleet-default", gomock.Any(), gomock.Any(), gomock.Any()).DoAndReturn(
		func(_, _ string, kind types.PatchType, patch []byte, _ ...string) (*provv1.Cluster, error) {
			if w.patchErr != nil {
				return nil, w.patchErr
			}
			return w.store("patch cluster", w.patched(kind, patch)), nil
		}).AnyTimes()
	clusters.EXPECT().UpdateStatus(gomock.Any()).DoAndReturn(func(c *provv1.Cluster) (*provv1.Cluster, error) {
		return w.store("update cluster status", c), nil
	}).AnyTimes()
	clusters.EXPECT().EnqueueAfter(gomock.Any(), gomock.Any(), gomock.Any()).Do(
		func(_, _ string, after time.Duration) { w.after = after }).AnyTimes()

	w.metrics = prometheus.NewRegistry()
	counter, err := metrics.NewDisruptions(w.metrics)
	if err != nil {
		w.t.Fatal(err)
	}
	if w.access == nil {
		w.access = access.New(access.Options{})
	}
	deps := Deps{
		Access:      w.access,
		Disruptions: counter,
		Clusters:    clusters, ManagementClusters: w.managementClusters(ctrl),
		CAPIClusters: w.capiClusters(ctrl), Machines: w.machineController(ctrl),
		MachineDeployments: w.deploymentController(ctrl), ControlPlanes: w.controlPlaneController(ctrl),
		Snapshots:      w.snapshotController(ctrl),
		DynamicSchemas: w.schemaController(ctrl), CRDs: w.definitions(ctrl), Secrets: w.secretController(ctrl),
		PodSecurityTemplates: w.templateController(ctrl),
		DynamicKinds:         dynamicKinds{w}, Apply: applier{w},
		InstanceID: instance, Now: func() time.Time { return w.clock },
		Rival: func(context.Context) (string, error) { return w.rival, w.rivalErr },
		Token: func() (string, error) { return "q5wzxk7d", nil },
		Disconnect: func(*provv1.Cluster) error {
			w.writes = append(w.writes, "disconnect")
			return nil
		},
	}
	if err := Register(w.t.Context(), deps); err != nil {
		w.t.Fatal(err)
	}
	return handle
}

func (w *world) store(what string, cluster *provv1.Cluster) *provv1.Cluster {
	w.writes = append(w.writes, what)
	w.cluster = cluster.DeepCopy()
	return w.cluster.DeepCopy()
}

// patched returns the cluster after a patch, as the API server would.
func (w *world) patched(kind types.PatchType, patch []byte) *provv1.Cluster {
	w.t.Helper()
	raw, err := json.Marshal(w.cluster)
	if err != nil {
		w.t.Fatal(err)
	}
	switch kind {
	case types.MergePatchType:
		raw, err = jsonpatch.MergePatch(raw, patch)
	case types.JSONPatchType:
		var decoded jsonpatch.Patch
		if decoded, err = jsonpatch.DecodePatch(patch); err == nil {
			raw, err = decoded.Apply(raw)
		}
	default:
		w.t.Fatalf("patch of type %s", kind)
	}
	if err != nil {
		w.t.Fatalf("%s: %v", patch, err)
	}
	out := &provv1.Cluster{}
	if err := json.Unmarshal(raw, out); err != nil {
		w.t.Fatal(err)
	}
	return out
}

func informer() cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Secret{}, 0, cache.Indexers{})
}

func (w *world) managementClusters(
	ctrl *gomock.Controller,
) *fake.MockNonNamespacedControllerInterface[*mgmtv3.Cluster, *mgmtv3.ClusterList] {
	controller := fake.NewMockNonNamespacedControllerInterface[*mgmtv3.Cluster, *mgmtv3.ClusterList](ctrl)
	reader := fake.NewMockNonNamespacedCacheInterface[*mgmtv3.Cluster](ctrl)
	reader.EXPECT().Get(gomock.Any()).DoAndReturn(func(name string) (*mgmtv3.Cluster, error) {
		return get(w.management, name)
	}).AnyTimes()
	controller.EXPECT().Cache().Return(reader).AnyTimes()
	controller.EXPECT().Informer().Return(informer()).AnyTimes()
	return controller
}

func (w *world) capiClusters(ctrl *gomock.Controller) *fake.MockControllerInterface[*clusterv1.Cluster,
	*clusterv1.ClusterList] {
	controller := fake.NewMockControllerInterface[*clusterv1.Cluster, *clusterv1.ClusterList](ctrl)
	reader := fake.NewMockCacheInterface[*clusterv1.Cluster](ctrl)
	reader.EXPECT().Get(gomock.Any(), gomock.Any()).DoAndReturn(func(_, name string) (*clusterv1.Cluster, error) {
		return get(w.capiCluster, name)
	}).AnyTimes()
	controller.EXPECT().Cache().Return(reader).AnyTimes()
	controller.EXPECT().Get(gomock.Any(), gomock.Any(),
		gomock.Any()).DoAndReturn(func(_, name string, _ metav1.GetOptions) (*clusterv1.Cluster, error) {
		if w.uncached {
			return &clusterv1.Cluster{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"objectset.rio.cattle.io/hash": ownSet}}}, nil
		}
		return get(w.capiCluster, name)
	}).AnyTimes()
	controller.EXPECT().Informer().Return(informer()).AnyTimes()
	controller.EXPECT().Delete(gomock.Any(), gomock.Any(),
		gomock.Any()).DoAndReturn(func(_, _ string, _ *metav1.DeleteOptions) error {
		w.writes = append(w.writes, "delete capi cluster")
		return nil
	}).AnyTimes()
	return controller
}

func (w *world) machineController(ctrl *gomock.Controller) *fake.MockControllerInterface[*clusterv1.Machine,
	*clusterv1.MachineList] {
	controller := fake.NewMockControllerInterface[*clusterv1.Machine, *clusterv1.MachineList](ctrl)
	reader := fake.NewMockCacheInterface[*clusterv1.Machine](ctrl)
	reader.EXPECT().List(gomock.Any(), gomock.Any()).DoAndReturn(func(string, labels.Selector) ([]*clusterv1.Machine,
		error) {
		return w.machines, nil
	}).AnyTimes()
	controller.EXPECT().Cache().Return(reader).AnyTimes()
	controller.EXPECT().Informer().Return(informer()).AnyTimes()
	return controller
}

func (w *world) deploymentController(
	ctrl *gomock.Controller) *fake.MockControllerInterface[*clusterv1.MachineDeployment,
	*clusterv1.MachineDeploymentList] {
	controller := fake.NewMockControllerInterface[*clusterv1.MachineDeployment, *clusterv1.MachineDeploymentList](ctrl)
	reader := fake.NewMockCacheInterface[*clusterv1.MachineDeployment](ctrl)
	reader.EXPECT().List(gomock.Any(),
		gomock.Any()).DoAndReturn(func(string, labels.Selector) ([]*clusterv1.MachineDeployment, error) {
		return w.deployments, nil
	}).AnyTimes()
	controller.EXPECT().Cache().Return(reader).AnyTimes()
	controller.EXPECT().Informer().Return(informer()).AnyTimes()
	return controller
}

func (w *world) controlPlaneController(ctrl *gomock.Controller) *fake.MockControllerInterface[*rkev1.RKEControlPlane,
	*rkev1.RKEControlPlaneList] {
	controller := fake.NewMockControllerInterface[*rkev1.RKEControlPlane, *rkev1.RKEControlPlaneList](ctrl)
	controller.EXPECT().Get(gomock.Any(), gomock.Any(),
		gomock.Any()).DoAndReturn(func(_, name string, _ metav1.GetOptions) (*rkev1.RKEControlPlane, error) {
		return get(w.controlPlane, name)
	}).AnyTimes()
	reader := fake.NewMockCacheInterface[*rkev1.RKEControlPlane](ctrl)
	reader.EXPECT().Get(gomock.Any(), gomock.Any()).DoAndReturn(func(_, name string) (*rkev1.RKEControlPlane, error) {
		return get(w.controlPlane, name)
	}).AnyTimes()
	controller.EXPECT().Cache().Return(reader).AnyTimes()
	controller.EXPECT().Informer().Return(informer()).AnyTimes()
	controller.EXPECT().Delete(gomock.Any(), gomock.Any(),
		gomock.Any()).DoAndReturn(func(_, _ string, o *metav1.DeleteOptions) error {
		if o.Preconditions == nil || *o.Preconditions.UID != w.controlPlane.UID {
			w.t.Errorf("preconditions %+v", o.Preconditions)
		}
		w.writes = append(w.writes, "delete control plane")
		return nil
	}).AnyTimes()
	return controller
}

func (w *world) schemaController(
	ctrl *gomock.Controller) *fake.MockNonNamespacedControllerInterface[*mgmtv3.DynamicSchema,
	*mgmtv3.DynamicSchemaList] {
	controller := fake.NewMockNonNamespacedControllerInterface[*mgmtv3.DynamicSchema, *mgmtv3.DynamicSchemaList](ctrl)
	reader := fake.NewMockNonNamespacedCacheInterface[*mgmtv3.DynamicSchema](ctrl)
	reader.EXPECT().Get(gomock.Any()).DoAndReturn(func(name string) (*mgmtv3.DynamicSchema, error) {
		return get(w.schemas[name], name)
	}).AnyTimes()
	controller.EXPECT().Cache().Return(reader).AnyTimes()
	controller.EXPECT().Informer().Return(informer()).AnyTimes()
	return controller
}

func (w *world) definitions(ctrl *gomock.Controller) *fake.MockNonNamespacedControllerInterface[
	*apiextv1.CustomResourceDefinition, *apiextv1.CustomResourceDefinitionList] {
	controller := fake.NewMockNonNamespacedControllerInterface[*apiextv1.CustomResourceDefinition,
		*apiextv1.CustomResourceDefinitionList](ctrl)
	reader := fake.NewMockNonNamespacedCacheInterface[*apiextv1.CustomResourceDefinition](ctrl)
	reader.EXPECT().AddIndexer(indexByKind, gomock.Any()).AnyTimes()
	reader.EXPECT().GetByIndex(indexByKind, gomock.Any()).DoAndReturn(
		func(_, kind string) ([]*apiextv1.CustomResourceDefinition, error) {
			if !w.providers[kind] {
				return nil, nil
			}
			return []*apiextv1.CustomResourceDefinition{{}}, nil
		}).AnyTimes()
	controller.EXPECT().Cache().Return(reader).AnyTimes()
	controller.EXPECT().Informer().Return(informer()).AnyTimes()
	return controller
}

func (w *world) secretController(ctrl *gomock.Controller) *fake.MockControllerInterface[*corev1.Secret,
	*corev1.SecretList] {
	controller := fake.NewMockControllerInterface[*corev1.Secret, *corev1.SecretList](ctrl)
	reader := fake.NewMockCacheInterface[*corev1.Secret](ctrl)
	reader.EXPECT().Get(gomock.Any(), gomock.Any()).DoAndReturn(func(namespace, name string) (*corev1.Secret, error) {
		return get(w.secrets[namespace+"/"+name], name)
	}).AnyTimes()
	reader.EXPECT().List(gomock.Any(), gomock.Any()).DoAndReturn(func(string, labels.Selector) ([]*corev1.Secret,
		error) {
		return slices.SortedFunc(maps.Values(w.secrets), func(a, b *corev1.Secret) int {
			return strings.Compare(a.Name, b.Name)
		}), nil
	}).AnyTimes()
	controller.EXPECT().Create(gomock.Any()).DoAndReturn(w.keepSecret("create")).AnyTimes()
	controller.EXPECT().Update(gomock.Any()).DoAndReturn(w.keepSecret("update")).AnyTimes()
	controller.EXPECT().Delete(gomock.Any(), gomock.Any(),
		gomock.Any()).DoAndReturn(func(namespace, name string, o *metav1.DeleteOptions) error {
		if o.Preconditions == nil || *o.Preconditions.UID != w.secrets[namespace+"/"+name].UID {
			w.t.Errorf("preconditions %+v", o.Preconditions)
		}
		w.writes = append(w.writes, "delete Secret "+name)
		delete(w.secrets, namespace+"/"+name)
		return nil
	}).AnyTimes()
	controller.EXPECT().Cache().Return(reader).AnyTimes()
	controller.EXPECT().Informer().Return(informer()).AnyTimes()
	return controller
}

func (w *world) templateController(
	ctrl *gomock.Controller,
) mgmtcontrollers.PodSecurityAdmissionConfigurationTemplateController {
	controller := fake.NewMockNonNamespacedControllerInterface[*mgmtv3.PodSecurityAdmissionConfigurationTemplate,
		*mgmtv3.PodSecurityAdmissionConfigurationTemplateList](ctrl)
	reader := fake.NewMockNonNamespacedCacheInterface[*mgmtv3.PodSecurityAdmissionConfigurationTemplate](ctrl)
	reader.EXPECT().Get(gomock.Any()).DoAndReturn(func(name string) (*mgmtv3.PodSecurityAdmissionConfigurationTemplate,
		error) {
		return get(w.templates[name], name)
	}).AnyTimes()
	controller.EXPECT().Cache().Return(reader).AnyTimes()
	controller.EXPECT().Informer().Return(informer()).AnyTimes()
	return controller
}

// keepSecret stores a Secret.
func (w *world) keepSecret(what string) func(*corev1.Secret) (*corev1.Secret, error) {
	return func(secret *corev1.Secret) (*corev1.Secret, error) {
		w.writes = append(w.writes, what+" Secret "+secret.Name)
		w.secrets[secret.Namespace+"/"+secret.Name] = secret.DeepCopy()
		return secret, nil
	}
}

// dynamicKinds simulates the kinds of node drivers.
type dynamicKinds struct{ *world }

func (d dynamicKinds) Get(gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	return get(d.configs[fmt.Sprintf("%s/%s/%s", gvk.Kind, namespace, name)], name)
}

func (d dynamicKinds) Update(_ context.Context, u *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	d.writes = append(d.writes, "update "+u.GetKind())
	d.configs[fmt.Sprintf("%s/%s/%s", u.GetKind(), u.GetNamespace(), u.GetName())] = u
	return u, nil
}

func (d dynamicKinds) Kinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		{Group: "rke-machine-config.cattle.io", Version: "v1", Kind: "PodConfig"},
		{Group: "rke-machine.cattle.io", Version: "v1", Kind: "PodMachine"},
		{Group: "rke-machine.cattle.io", Version: "v1", Kind: "PodMachineTemplate"},
	}
}

func (d dynamicKinds) Synced(schema.GroupVersionKind) bool { return !d.unserved }

func (d dynamicKinds) OnInformer(f func(schema.GroupVersionKind, cache.SharedIndexInformer)) {
	for _, gvk := range d.Kinds() {
		f(gvk, informer())
	}
}

// applier records sets; an unchanged set is no write.
type applier struct{ *world }

func (a applier) Watch(...schema.GroupVersionKind) error { return nil }

func (a applier) Apply(ctx context.Context, setID string, _ runtime.Object, refs applyset.OwnerRefs,
	kinds []schema.GroupVersionKind, objs []runtime.Object,
) (applyset.Result, error) {
	if setID == managementSet {
		a.writes = append(a.writes, "apply management")
		return applyset.Result{}, nil
	}
	if a.applyErr != nil {
		return applyset.Result{}, a.applyErr
	}
	for _, object := range objs {
		if !slices.Contains(kinds, object.GetObjectKind().GroupVersionKind()) {
			a.t.Errorf("%T is not of the kinds of the set", object)
		}
	}
	if setID != "rke-cluster" || refs != applyset.NoOwnerRef {
		a.t.Errorf("set %s with references %v", setID, refs)
	}
	a.applied, a.kept = objs, applyset.KeptFields(ctx)
	a.writes = append(a.writes, "apply")
	return applyset.Result{Updated: a.updated}, nil
}

func (a applier) PurgeLive(
	_ context.Context, setID string, _ schema.GroupVersionKind, _, _ string, _ []schema.GroupVersionKind,
) error {
	a.writes = append(a.writes, map[string]string{handlerName: "purge", managementSet: "purge management"}[setID])
	return nil
}

func (a applier) PurgeKept(_ context.Context, _ string, _ schema.GroupVersionKind, _, _ string,
	kinds []schema.GroupVersionKind) error {
	for _, gvk := range kinds {
		a.writes = append(a.writes, "purge "+gvk.Kind)
	}
	return nil
}

// newWorld has a valid, prepared and named cluster with one pool and no Cluster API objects.
func newWorld(t *testing.T, edits ...func(*world)) *world {
	t.Helper()
	w := &world{
		t: t, clock: now,
		cluster: &provv1.Cluster{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "fleet-default", Name: "demo", UID: "u", Generation: 1,
				Annotations: map[string]string{
					"drover.io/instance": instance, rkev1.BlockMoveAnnotation: "true",
					"provisioning.cattle.io/management-cluster-display-name": "demo",
				},
				Finalizers: []string{provv1.ProvisioningClusterFinalizer, provv1.RKEClusterFinalizer},
			},
			Spec: provv1.ClusterSpec{
				KubernetesVersion: "v1.36.2+k3s1",
				RKEConfig: &provv1.RKEConfig{MachinePools: []provv1.RKEMachinePool{{
					Name: "pool1", EtcdRole: true, ControlPlaneRole: true,
					NodeConfig:        &corev1.ObjectReference{Kind: "PodConfig", Name: "nc"},
					DynamicSchemaSpec: `{"resourceFields":{"image":{"type":"string"}}}`,
				}}},
			},
			Status: provv1.ClusterStatus{
				ClusterName: "c-m-q5wzxk7d", FleetWorkspaceName: "fleet-default", ObservedGeneration: 1,
			},
		},
		schemas: map[string]*mgmtv3.DynamicSchema{"podconfig": {Spec: mgmtv3.DynamicSchemaSpec{
			ResourceFields: map[string]mgmtv3.Field{"image": {Type: "string"}},
		}}},
		secrets: map[string]*corev1.Secret{},
		configs: map[string]*unstructured.Unstructured{"PodConfig/fleet-default/nc": {Object: map[string]any{
			"apiVersion": "rke-machine-config.cattle.io/v1", "kind": "PodConfig", "image": "i",
			"metadata": map[string]any{
				"namespace": "fleet-default", "name": "nc",
				"ownerReferences": []any{map[string]any{
					"apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster", "name": "demo", "uid": "u",
					"controller": true,
				}},
			},
		}}},
	}
	for kind, status := range map[string]string{"Created": "True", "Stalled": "False"} {
		conditions.Set(&w.cluster.Status.Conditions, conditions.Condition{Type: kind, Status: status}, now)
	}
	for _, edit := range edits {
		edit(w)
	}
	return w
}

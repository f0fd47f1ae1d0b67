package rehearsal

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/kube/applyset"
	"github.com/drover-io/drover/pkg/kube/clients"
)

// Dynamic gives access to the kinds of node drivers and of Fleet on a stage, like clients.Dynamic.
type Dynamic struct {
	idle
	stage *Stage
}

// Dynamic returns the kinds of node drivers and of Fleet on the stage.
func (s *Stage) Dynamic() Dynamic { return Dynamic{stage: s} }

// Get returns an object.
func (d Dynamic) Get(gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	return d.stage.get(id{gvk, namespace, name})
}

// Presence returns whether the API server serves a kind.
func (d Dynamic) Presence(gvk schema.GroupVersionKind, _ string) (clients.Presence, error) {
	served, err := d.stage.Discovery.ServerResourcesForGroupVersion(gvk.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return clients.Absent, nil
	}
	if err != nil {
		return clients.Absent, fmt.Errorf("find kind %s: %w", gvk, err)
	}
	isKind := func(r metav1.APIResource) bool { return r.Kind == gvk.Kind }
	if !slices.ContainsFunc(served.APIResources, isKind) {
		return clients.Absent, nil
	}
	return clients.Served, nil
}

// Create creates an object.
func (d Dynamic) Create(_ context.Context, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return d.stage.create(object.GroupVersionKind(), object)
}

// Update writes an object without its status.
func (d Dynamic) Update(_ context.Context, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return d.stage.update(object.GroupVersionKind(), object)
}

// UpdateStatus writes the status of an object.
func (d Dynamic) UpdateStatus(_ context.Context, object *unstructured.Unstructured) (*unstructured.Unstructured,
	error) {
	return d.stage.updateStatus(object.GroupVersionKind(), object)
}

// idle is the rest of clients.Dynamic. The owner of the stage runs the handlers. Only deleted clusters need Kinds.
type idle struct{}

func (idle) Kinds() []schema.GroupVersionKind                                            { return nil }
func (idle) Synced(schema.GroupVersionKind) bool                                         { return true }
func (idle) OnChange(string, func(schema.GroupVersionKind) bool, clients.DynamicHandler) {}
func (idle) OnInformer(func(schema.GroupVersionKind, cache.SharedIndexInformer))         {}
func (idle) EnqueueAfter(schema.GroupVersionKind, string, string, time.Duration)         {}

// Apply applies sets of objects on the stage.
func (s *Stage) Apply() *applyset.Set {
	return applyset.New(applyset.Options{
		Discovery: s.Discovery, Dynamic: resources{stage: s}, Scheme: s.Scheme, Informer: s.informer,
	})
}

// Secrets applies sets of Secrets on the stage. client writes them.
func (s *Stage) Secrets(client applyset.SecretClient) Secrets { return Secrets{s, client} }

// Secrets applies sets of Secrets. It reads them only when Apply is called.
type Secrets struct {
	stage  *Stage
	client applyset.SecretClient
}

// Apply makes a set equal to desired.
func (s Secrets) Apply(
	ctx context.Context, setID string, owner runtime.Object, refs applyset.OwnerRefs, desired []*corev1.Secret,
) (applyset.Result, error) {
	objects, err := s.stage.list(secretKind, s.stage.Namespace)
	if err != nil {
		return applyset.Result{}, err
	}
	informer := applyset.NewStill(cache.Indexers{})
	for _, object := range objects {
		if !applyset.Kept(object) {
			continue
		}
		secret, err := typed[*corev1.Secret](object)
		if err != nil {
			return applyset.Result{}, err
		}
		_ = informer.GetIndexer().Add(secret) // its key function accepts every object
	}
	sets, err := applyset.NewSecrets(s.stage.Scheme, s.client, informer)
	if err != nil {
		return applyset.Result{}, err
	}
	return sets.Apply(ctx, setID, owner, refs, desired)
}

// informer shows the objects of a kind that may be in a set of the cluster.
func (s *Stage) informer(gvk schema.GroupVersionKind) (cache.SharedIndexInformer, error) {
	if known, ok := s.caches[gvk]; ok {
		return known, nil
	}
	objects, err := s.members(gvk)
	if err != nil {
		return nil, err
	}
	made := applyset.NewStill(cache.Indexers{})
	for _, object := range objects {
		replace(made, nil, object)
	}
	s.caches[gvk] = made
	return made, nil
}

// members returns the objects that may be in a set of the cluster. They are in its namespace, in the namespace of the
// management cluster, or named like it.
func (s *Stage) members(gvk schema.GroupVersionKind) ([]*unstructured.Unstructured, error) {
	switch gvk {
	case mgmtv3.SchemeGroupVersion.WithKind("ClusterRegistrationToken"):
		return s.list(gvk, s.management)
	case mgmtv3.SchemeGroupVersion.WithKind("Cluster"), corev1.SchemeGroupVersion.WithKind("Namespace"):
		found, err := s.look(id{gvk, "", s.management})
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return []*unstructured.Unstructured{found}, err
	}
	return s.list(gvk, s.Namespace)
}

// replace stores an object in an informer; nil removes it.
func replace(in applyset.Still, was, now *unstructured.Unstructured) {
	if now != nil {
		_ = in.GetIndexer().Update(now) // its key function accepts every object
	} else if was != nil {
		_ = in.GetIndexer().Delete(was)
	}
}

// resources is a dynamic client of the stage. It implements only the methods that apply uses.
type resources struct {
	dynamic.NamespaceableResourceInterface
	stage     *Stage
	resource  schema.GroupVersionResource
	namespace string
}

// Resource implements dynamic.Interface.
func (r resources) Resource(resource schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return resources{stage: r.stage, resource: resource}
}

// Namespace implements dynamic.NamespaceableResourceInterface.
func (r resources) Namespace(namespace string) dynamic.ResourceInterface {
	return resources{stage: r.stage, resource: r.resource, namespace: namespace}
}

// kind returns the kind of the resource. apply requests the cache of each kind before it writes.
func (r resources) kind() schema.GroupVersionKind {
	for gvk := range r.stage.caches {
		if resourceOf(gvk) == r.resource {
			return gvk
		}
	}
	return schema.GroupVersionKind{}
}

func (r resources) Create(
	_ context.Context, object *unstructured.Unstructured, _ metav1.CreateOptions, _ ...string,
) (*unstructured.Unstructured, error) {
	object = object.DeepCopy()
	object.SetNamespace(r.namespace)
	return r.stage.create(r.kind(), object)
}

func (r resources) Get(
	_ context.Context, name string, _ metav1.GetOptions, _ ...string,
) (*unstructured.Unstructured, error) {
	return r.stage.get(id{r.kind(), r.namespace, name})
}

func (r resources) Patch(
	_ context.Context, name string, pt types.PatchType, data []byte, _ metav1.PatchOptions, sub ...string,
) (*unstructured.Unstructured, error) {
	return r.stage.patch(id{r.kind(), r.namespace, name}, pt, data, sub...)
}

func (r resources) Delete(_ context.Context, name string, _ metav1.DeleteOptions, _ ...string) error {
	return r.stage.delete(id{r.kind(), r.namespace, name})
}

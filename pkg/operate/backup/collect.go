package backup

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
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/dynamic"

	"github.com/drover-io/drover/pkg/controllers"
)

var (
	crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"}
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

// CollectOptions select what to back up.
type CollectOptions struct {
	// Client reads the management cluster.
	Client dynamic.Interface
	// Namespaces of the clusters to back up. Empty means all.
	Namespaces []string
	// Version of the program.
	Version string
	// Now is the clock.
	Now func() time.Time
}

// pageSize is the number of objects in one answer of the API server.
const pageSize = 500

// attempts is how often Collect reads everything if objects appear while it reads.
const attempts = 3

// Collect reads everything that belongs to a backup. It reads one kind after the other. It reads everything again if an
// object's owner is missing but the owner's kind is in the backup. Such an owner was created after its kind was read.
func Collect(ctx context.Context, o CollectOptions) (*Backup, error) {
	identity, err := o.Client.Resource(namespaces).Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the identity of the management cluster: %w", err)
	}
	b := &Backup{Manifest: Manifest{
		ID: string(uuid.NewUUID()), CreatedAt: o.Now().UTC().Truncate(time.Second), Version: o.Version,
		ManagementCluster: string(identity.GetUID()), Namespaces: o.Namespaces,
	}}
	var torn []string
	for attempt := range attempts {
		objects, err := o.read(ctx)
		if err != nil {
			return nil, err
		}
		if torn = orphans(objects); len(torn) == 0 || attempt == attempts-1 {
			b.Objects = objects
			break
		}
	}
	for _, text := range torn {
		b.Manifest.Warnings = append(b.Manifest.Warnings, text+" does not exist; a restore leaves the owner out")
	}
	b.Manifest.Warnings = append(b.Manifest.Warnings, warnings(b.Objects)...)
	if b.Objects, err = order(b.Objects); err != nil {
		return nil, err
	}
	for _, object := range b.Objects {
		object.SetManagedFields(nil)
	}
	b.count()
	return b, nil
}

// count counts the objects for the manifest.
func (b *Backup) count() {
	b.Manifest.Counts = map[string]int{}
	for _, object := range b.Objects {
		b.Manifest.Counts[object.GroupVersionKind().GroupKind().String()]++
	}
}

// orphans lists owners that are missing although the backup contains objects of their kind.
func orphans(objects []*unstructured.Unstructured) []string {
	present, kinds := map[types.UID]bool{}, map[schema.GroupKind]bool{}
	for _, object := range objects {
		present[object.GetUID()], kinds[object.GroupVersionKind().GroupKind()] = true, true
	}
	var out []string
	for _, object := range objects {
		for _, owner := range object.GetOwnerReferences() {
			kind := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind()
			if kinds[kind] && !present[owner.UID] {
				out = append(out, fmt.Sprintf("%s: its owner %s", describe(object), name(kind, "", owner.Name)))
			}
		}
	}
	slices.Sort(out)
	return out
}

// read reads and selects the objects once.
func (o CollectOptions) read(ctx context.Context) ([]*unstructured.Unstructured, error) {
	definitions, err := list(ctx, o.Client, crds)
	if err != nil {
		return nil, err
	}
	definitions = slices.DeleteFunc(definitions, func(crd *unstructured.Unstructured) bool { return !whole(crd) })
	var w world
	for _, crd := range definitions {
		objects, err := list(ctx, o.Client, resourceOf(crd))
		if err != nil {
			return nil, err
		}
		w.kinds = append(w.kinds, objects...)
	}
	for _, kind := range coreKinds {
		objects, err := list(ctx, o.Client, kind)
		if err != nil {
			return nil, err
		}
		w.core = append(w.core, objects...)
	}
	o.learn(&w)
	objects, err := w.choose(o.Namespaces)
	if err != nil {
		return nil, err
	}
	spaces, err := o.namespacesOf(ctx, objects)
	if err != nil {
		return nil, err
	}
	for _, crd := range definitions {
		unstructured.RemoveNestedField(crd.Object, "status")
	}
	return slices.Concat(definitions, spaces, objects), nil
}

// learn adds the pull Secrets from the settings that servers have published.
func (o CollectOptions) learn(w *world) {
	for _, object := range w.core {
		if object.GetKind() != "ConfigMap" || object.GetNamespace() != controllers.SettingsNamespace ||
			object.GetLabels()[controllers.SettingsLabel] != "true" {
			continue
		}
		var published corev1.ConfigMap
		if runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &published) != nil {
			continue
		}
		if settings, ok := controllers.PublishedSettings([]corev1.ConfigMap{published}, ""); ok {
			w.settings.RegistryPullSecrets = append(w.settings.RegistryPullSecrets,
				settings.Render().RegistryPullSecrets...)
		}
	}
}

func (o CollectOptions) namespacesOf(ctx context.Context,
	objects []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	var names []string
	for _, object := range objects {
		if namespace := object.GetNamespace(); namespace != "" && !slices.Contains(names, namespace) {
			names = append(names, namespace)
		}
	}
	var out []*unstructured.Unstructured
	for _, name := range names {
		namespace, err := o.Client.Resource(namespaces).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("read namespace %s: %w", name, err)
		}
		unstructured.RemoveNestedField(namespace.Object, "status")
		unstructured.RemoveNestedField(namespace.Object, "spec")
		out = append(out, namespace)
	}
	return out, nil
}

// resourceOf returns the resource that a definition defines, in its storage version.
func resourceOf(crd *unstructured.Unstructured) schema.GroupVersionResource {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	out := schema.GroupVersionResource{Group: group, Resource: plural}
	for _, one := range versions {
		version, _ := one.(map[string]any)
		if stored, _, _ := unstructured.NestedBool(version, "storage"); stored {
			out.Version, _, _ = unstructured.NestedString(version, "name")
		}
	}
	return out
}

// list reads all objects of a kind. A kind that is not served has no objects.
func list(ctx context.Context, client dynamic.Interface,
	kind schema.GroupVersionResource) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	options := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := client.Resource(kind).List(ctx, options)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if apierrors.IsResourceExpired(err) && options.Continue != "" {
			out, options.Continue = nil, "" // the list expired: start again
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", kind.GroupResource(), err)
		}
		for i := range page.Items {
			out = append(out, &page.Items[i])
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return out, nil
		}
	}
}

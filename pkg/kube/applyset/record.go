package applyset

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/rancher/wrangler/v3/pkg/apply"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// Result lists the written objects, each as "resource namespace/name", in alphabetical order. An Apply that changes
// nothing returns the zero Result.
type Result struct {
	Created, Updated, Deleted []string
}

// Changed reports whether anything was written.
func (r Result) Changed() bool { return len(r.Created)+len(r.Updated)+len(r.Deleted) > 0 }

// String returns a line for logs.
func (r Result) String() string {
	var parts []string
	for _, p := range []struct {
		verb  string
		names []string
	}{{"created", r.Created}, {"updated", r.Updated}, {"deleted", r.Deleted}} {
		if len(p.names) > 0 {
			parts = append(parts, p.verb+" "+strings.Join(p.names, ", "))
		}
	}
	if len(parts) == 0 {
		return "unchanged"
	}
	return strings.Join(parts, "; ")
}

func describe(kind, namespace, name string) string {
	if namespace == "" {
		return kind + " " + name
	}
	return kind + " " + namespace + "/" + name
}

type recorderKey struct{}

// recorder collects the writes of one Apply. It travels in the context.
type recorder struct {
	set    string
	mu     sync.Mutex
	result Result
	// foreign are the objects of other sets.
	foreign []Difference
	wrote   bool // also after a failed write, because a create that conflicts shows that the cache is behind
}

func (r *recorder) try() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wrote = true
}

func (r *recorder) refuse(object Difference) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.foreign = append(r.foreign, object)
}

func (r *recorder) tried() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wrote
}

func (r *recorder) add(list *[]string, kind, namespace, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*list = append(*list, describe(kind, namespace, name))
}

func (r *recorder) sorted() Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, list := range [][]string{r.result.Created, r.result.Updated, r.result.Deleted} {
		slices.Sort(list)
	}
	return r.result
}

// recording is a client that records its writes. It refuses to take an object from another set, and accepts that an
// object to delete does not exist.
type recording struct {
	dynamic.NamespaceableResourceInterface
	resource string
}

// Namespace returns the client of one namespace.
func (r recording) Namespace(namespace string) dynamic.ResourceInterface {
	return recordingIn{r.NamespaceableResourceInterface.Namespace(namespace), r.resource, namespace}
}

// Create is Create of recordingIn, for kinds without namespaces. The next two are the same.
func (r recording) Create(ctx context.Context, obj *unstructured.Unstructured, opts metav1.CreateOptions,
	sub ...string) (*unstructured.Unstructured, error) {
	return recordingIn{r.NamespaceableResourceInterface, r.resource, ""}.Create(ctx, obj, opts, sub...)
}

func (r recording) Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions,
	sub ...string) (*unstructured.Unstructured, error) {
	return recordingIn{r.NamespaceableResourceInterface, r.resource, ""}.Patch(ctx, name, pt, data, opts, sub...)
}

func (r recording) Delete(ctx context.Context, name string, opts metav1.DeleteOptions, sub ...string) error {
	return recordingIn{r.NamespaceableResourceInterface, r.resource, ""}.Delete(ctx, name, opts, sub...)
}

type recordingIn struct {
	dynamic.ResourceInterface
	resource  string
	namespace string
}

func recorderOf(ctx context.Context) *recorder {
	if r, ok := ctx.Value(recorderKey{}).(*recorder); ok {
		return r
	}
	return &recorder{}
}

// Create creates the object.
func (r recordingIn) Create(ctx context.Context, obj *unstructured.Unstructured, opts metav1.CreateOptions,
	sub ...string) (*unstructured.Unstructured, error) {
	record := recorderOf(ctx)
	record.try()
	created, err := r.ResourceInterface.Create(ctx, obj, opts, sub...)
	if apierrors.IsAlreadyExists(err) {
		if foreign := r.refuseForeign(ctx, record, obj); foreign != nil {
			return nil, foreign
		}
	}
	if err == nil {
		record.add(&record.result.Created, r.resource, r.namespace, obj.GetName())
	}
	return created, err
}

// refuseForeign returns an error if the existing object belongs to another set.
func (r recordingIn) refuseForeign(ctx context.Context, record *recorder, obj *unstructured.Unstructured) error {
	existing, err := r.Get(ctx, obj.GetName(), metav1.GetOptions{})
	if err != nil {
		return nil //nolint:nilerr // wrangler asks again and reports it
	}
	if hash := existing.GetLabels()[apply.LabelHash]; hash != "" && hash != record.set {
		owner := existing.GetAnnotations()
		reason := fmt.Sprintf("belongs to set %q of %s", owner[apply.LabelID],
			describe(owner[apply.LabelGVK], owner[apply.LabelNamespace], owner[apply.LabelName]))
		record.refuse(Difference{Refuse, obj.GroupVersionKind(), obj.GetNamespace(), obj.GetName(), nil, reason})
		return fmt.Errorf("%s exists and %s", describe(obj.GetKind(), obj.GetNamespace(), obj.GetName()), reason)
	}
	return nil
}

// Patch changes the object.
func (r recordingIn) Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions,
	sub ...string) (*unstructured.Unstructured, error) {
	record := recorderOf(ctx)
	record.try()
	patched, err := r.ResourceInterface.Patch(ctx, name, pt, data, opts, sub...)
	if err == nil {
		record.add(&record.result.Updated, r.resource, r.namespace, name)
	}
	return patched, err
}

// Delete deletes the object.
func (r recordingIn) Delete(ctx context.Context, name string, opts metav1.DeleteOptions, sub ...string) error {
	record := recorderOf(ctx)
	record.try()
	err := r.ResourceInterface.Delete(ctx, name, opts, sub...)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		record.add(&record.result.Deleted, r.resource, r.namespace, name)
	}
	return err
}

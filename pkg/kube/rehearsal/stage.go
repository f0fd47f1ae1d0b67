package rehearsal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/drover-io/drover/pkg/kube/applyset"
	"github.com/drover-io/drover/pkg/kube/clients"
)

// Options configure a stage.
type Options struct {
	// Live reads live objects. The stage never writes with it.
	Live dynamic.Interface
	// Discovery finds the resources of kinds. Scheme knows the typed kinds.
	Discovery discovery.DiscoveryInterface
	Scheme    *runtime.Scheme
	// Namespace is that of the cluster. Caches show the objects in it, and objects that are read by name.
	Namespace string
	// ID is the name of the management cluster and of its namespace. It is empty if there is none.
	ID string
	// Now is the creation time of all new objects.
	Now time.Time
}

// Stage holds the objects that the controllers read and write.
type Stage struct {
	opts Options
	// the generated clients take no context
	ctx    context.Context
	known  map[id]state
	listed map[collection]error
	failed map[id]error
	unread map[string]bool
	// made counts the created objects, and changes the writes.
	made, changes int
	// before are the objects that Try may restore, nil outside Try.
	before map[id]state
	caches map[schema.GroupVersionKind]applyset.Still
	// decoded are typed objects. They are never changed either.
	decoded map[*unstructured.Unstructured]any
}

// id names an object. collection names all objects of a kind in a namespace.
type (
	id struct {
		gvk             schema.GroupVersionKind
		namespace, name string
	}
	collection struct {
		gvk       schema.GroupVersionKind
		namespace string
	}
	// state is an object as found and as it is now; nil is absent. Its objects are never changed.
	state struct{ found, now *unstructured.Unstructured }
)

// New returns a stage without differences from the live objects.
func New(ctx context.Context, opts Options) *Stage {
	return &Stage{
		opts: opts, ctx: ctx, known: map[id]state{}, listed: map[collection]error{}, failed: map[id]error{}, unread: map[string]bool{},
		caches: map[schema.GroupVersionKind]applyset.Still{}, decoded: map[*unstructured.Unstructured]any{},
	}
}

// Assume treats all writes until now as live: they are no differences.
func (s *Stage) Assume() {
	for key, one := range s.known {
		s.known[key] = state{found: one.now, now: one.now}
	}
}

// Changes counts the writes that changed something.
func (s *Stage) Changes() int { return s.changes }

// Try runs act on the stage. If act needs an object that cannot be read, Try undoes its writes, because its result is
// unknown. It then returns the reasons instead of the error of act.
func (s *Stage) Try(act func() error) (unread []string, err error) {
	changes := s.changes
	s.unread, s.before = map[string]bool{}, map[id]state{}
	err = act()
	before := s.before
	s.before = nil
	if len(s.unread) == 0 {
		return nil, err
	}
	maps.Copy(s.known, before)
	s.changes = changes
	s.caches = map[schema.GroupVersionKind]applyset.Still{}
	return slices.Sorted(maps.Keys(s.unread)), nil
}

// ResourceOf returns the resource of a kind, for all kinds that Drover's controllers read.
func ResourceOf(gvk schema.GroupVersionKind) schema.GroupVersionResource {
	return gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + "s")
}

func (s *Stage) live(gvk schema.GroupVersionKind, namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return s.opts.Live.Resource(ResourceOf(gvk))
	}
	return s.opts.Live.Resource(ResourceOf(gvk)).Namespace(namespace)
}

// note records what could not be read, because of a missing permission or a failing API server. It returns err.
func (s *Stage) note(err error, verb string, of collection) error {
	what := verb + " " + ResourceOf(of.gvk).GroupResource().String()
	if of.namespace != "" {
		what += " in namespace " + of.namespace
	}
	if apierrors.IsForbidden(err) {
		s.unread["you may not "+what] = true
	} else {
		s.unread[what+": "+err.Error()] = true
	}
	return err
}

// get returns a copy of an object, or an error of the API server.
func (s *Stage) get(key id) (*unstructured.Unstructured, error) {
	found, err := s.look(key)
	if err != nil {
		return nil, err
	}
	return found.DeepCopy(), nil
}

// look returns an object that the caller must not change.
func (s *Stage) look(key id) (*unstructured.Unstructured, error) {
	one, known := s.known[key]
	switch {
	case known && one.now == nil:
		return nil, apierrors.NewNotFound(ResourceOf(key.gvk).GroupResource(), key.name)
	case known:
		return one.now, nil
	}
	all := collection{key.gvk, key.namespace}
	if err := s.failed[key]; err != nil {
		return nil, s.note(err, "get", all)
	}
	switch err, listed := s.listed[all]; {
	case listed && err == nil:
		return nil, apierrors.NewNotFound(ResourceOf(key.gvk).GroupResource(), key.name)
	// A user without list permission may have get; after another list error, get is not tried.
	case listed && !apierrors.IsForbidden(err):
		return nil, s.note(err, "list", all)
	}
	found, err := s.live(key.gvk, key.namespace).Get(s.ctx, key.name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		s.failed[key] = err
		return nil, s.note(err, "get", all)
	}
	if err != nil {
		s.known[key] = state{}
		return nil, err
	}
	found.SetGroupVersionKind(key.gvk)
	s.known[key] = state{found: found, now: found}
	return found, nil
}

var secretKind = corev1.SchemeGroupVersion.WithKind("Secret")

// everywhere selects all namespaces, and objects without one.
const everywhere = ""

// list returns the objects of a kind in a namespace, by name. The caller must not change them.
func (s *Stage) list(gvk schema.GroupVersionKind, namespace string) ([]*unstructured.Unstructured, error) {
	all := collection{gvk, namespace}
	err, asked := s.listed[all]
	if !asked {
		err = s.read(all)
		s.listed[all] = err
	}
	if err != nil {
		return nil, s.note(err, "list", all)
	}
	var out []*unstructured.Unstructured
	for key, one := range s.known {
		if key.gvk == gvk && (key.namespace == namespace || namespace == everywhere) && one.now != nil {
			out = append(out, one.now)
		}
	}
	slices.SortFunc(out, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(strings.Compare(a.GetName(), b.GetName()), strings.Compare(a.GetNamespace(), b.GetNamespace()))
	})
	return out, nil
}

// ReadAll reads all objects of a kind in the cluster's namespace with one request, instead of one request for each. A
// missing list permission is not an error.
func (s *Stage) ReadAll(gvk schema.GroupVersionKind) {
	all := collection{gvk, s.opts.Namespace}
	if _, asked := s.listed[all]; !asked {
		s.listed[all] = s.read(all)
	}
}

// ReadEverywhere makes indexes of a kind cover all namespaces, like the caches of the server. Without it, or if it
// fails, they cover the namespace of the cluster.
func (s *Stage) ReadEverywhere(gvk schema.GroupVersionKind) error {
	all := collection{gvk, everywhere}
	err := s.read(all)
	if err == nil {
		s.listed[all], s.listed[collection{gvk, s.opts.Namespace}] = nil, nil
	}
	return err
}

// indexed returns the namespace that the indexes of a kind cover.
func (s *Stage) indexed(gvk schema.GroupVersionKind) string {
	if _, all := s.listed[collection{gvk, everywhere}]; all {
		return everywhere
	}
	return s.opts.Namespace
}

func (s *Stage) read(all collection) error {
	opts := metav1.ListOptions{}
	if all.gvk == secretKind {
		opts.FieldSelector = clients.NotHelm // like the caches of the server
	}
	found, err := s.live(all.gvk, all.namespace).List(s.ctx, opts)
	if apierrors.IsNotFound(err) {
		return nil // a kind that is not served has no objects
	}
	if err != nil {
		return err
	}
	for i := range found.Items {
		object := &found.Items[i]
		object.SetGroupVersionKind(all.gvk)
		key := id{all.gvk, object.GetNamespace(), object.GetName()}
		if _, known := s.known[key]; !known {
			s.known[key] = state{found: object, now: object}
		}
	}
	return nil
}

// put stores the new state of an object. Nil removes it.
func (s *Stage) put(key id, object *unstructured.Unstructured) {
	one := s.known[key]
	if _, noted := s.before[key]; !noted && s.before != nil {
		s.before[key] = one
	}
	s.known[key] = state{found: one.found, now: object}
	s.changes++
	if cache, ok := s.caches[key.gvk]; ok {
		replace(cache, one.now, object)
	}
}

func (s *Stage) create(gvk schema.GroupVersionKind, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	key := id{gvk, object.GetNamespace(), object.GetName()}
	if _, err := s.get(key); err == nil {
		return nil, apierrors.NewAlreadyExists(ResourceOf(gvk).GroupResource(), key.name)
	} else if !apierrors.IsNotFound(err) {
		return nil, err
	}
	s.made++
	made := object.DeepCopy()
	made.SetGroupVersionKind(gvk)
	made.SetUID(types.UID(fmt.Sprintf("rehearsed-%d", s.made)))
	made.SetResourceVersion("1")
	made.SetGeneration(1)
	made.SetCreationTimestamp(metav1.NewTime(s.opts.Now))
	if err := s.fillToken(made); err != nil {
		return nil, err
	}
	s.put(key, made)
	return made.DeepCopy(), nil
}

// fillToken fills the Secret of a service account's token like the API server, but the token is not valid.
func (s *Stage) fillToken(secret *unstructured.Unstructured) error {
	kind, _, _ := unstructured.NestedString(secret.Object, "type")
	if kind != string(corev1.SecretTypeServiceAccountToken) {
		return nil
	}
	name := secret.GetAnnotations()[corev1.ServiceAccountNameKey]
	account, err := s.get(id{corev1.SchemeGroupVersion.WithKind("ServiceAccount"), secret.GetNamespace(), name})
	if err != nil {
		return err
	}
	annotations := secret.GetAnnotations()
	annotations[corev1.ServiceAccountUIDKey] = string(account.GetUID())
	secret.SetAnnotations(annotations)
	return unstructured.SetNestedField(secret.Object, "cmVoZWFyc2Vk", "data", corev1.ServiceAccountTokenKey)
}

// errVersion is the cause of a conflict.
var errVersion = errors.New("the object has been changed since")

const statusField = "status"

// update writes an object without its status, or only its status. A write that changes nothing is ignored.
func (s *Stage) update(gvk schema.GroupVersionKind, object *unstructured.Unstructured, subresources ...string) (*unstructured.Unstructured, error) {
	key := id{gvk, object.GetNamespace(), object.GetName()}
	before, err := s.get(key)
	if err != nil {
		return nil, err
	}
	if version := object.GetResourceVersion(); version != "" && version != before.GetResourceVersion() {
		return nil, apierrors.NewConflict(ResourceOf(gvk).GroupResource(), key.name, errVersion)
	}
	after := object.DeepCopy()
	from := before
	if slices.Contains(subresources, statusField) {
		after, from = before.DeepCopy(), object
	}
	delete(after.Object, statusField)
	if status, has := from.Object[statusField]; has {
		after.Object[statusField] = runtime.DeepCopyJSONValue(status)
	}
	after.SetGroupVersionKind(gvk)
	after.SetUID(before.GetUID())
	after.SetCreationTimestamp(before.GetCreationTimestamp())
	after.SetDeletionTimestamp(before.GetDeletionTimestamp())
	after.SetResourceVersion(before.GetResourceVersion())
	changed, err := difference(before, after)
	if err != nil || len(changed) == 0 {
		return before, err
	}
	after.SetResourceVersion(next(before.GetResourceVersion()))
	if after.GetDeletionTimestamp() != nil && len(after.GetFinalizers()) == 0 {
		s.put(key, nil) // no finalizer holds it any more
	} else {
		s.put(key, after)
	}
	return after.DeepCopy(), nil
}

// next returns a version after the given one.
func next(version string) string {
	number, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return version + "'"
	}
	return strconv.FormatUint(number+1, 10)
}

// delete removes an object, or marks it as deleted while a finalizer holds it.
func (s *Stage) delete(key id, opts *metav1.DeleteOptions) error {
	held, err := s.get(key)
	if err != nil {
		return err
	}
	if opts != nil && opts.Preconditions != nil {
		uid, version := opts.Preconditions.UID, opts.Preconditions.ResourceVersion
		if uid != nil && *uid != held.GetUID() || version != nil && *version != held.GetResourceVersion() {
			return apierrors.NewConflict(ResourceOf(key.gvk).GroupResource(), key.name, errVersion)
		}
	}
	switch {
	case len(held.GetFinalizers()) == 0:
		s.put(key, nil)
	case held.GetDeletionTimestamp() == nil:
		held.SetDeletionTimestamp(new(metav1.NewTime(s.opts.Now)))
		held.SetResourceVersion(next(held.GetResourceVersion()))
		s.put(key, held)
	}
	return nil
}

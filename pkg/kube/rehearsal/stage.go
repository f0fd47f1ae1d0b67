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

// Options are what a stage is made from.
type Options struct {
	// Live reads what there is. Nothing is ever written with it.
	Live dynamic.Interface
	// Discovery finds the resources of kinds, and Scheme knows those with types.
	Discovery discovery.DiscoveryInterface
	Scheme    *runtime.Scheme
	// Namespace is that of the cluster. Caches show the objects in it, and those that are asked for by name.
	Namespace string
	// ID is the name of the management cluster and of its namespace; empty when there is none.
	ID string
	// Now is the time of all objects that are made.
	Now time.Time
}

// Stage is what the controllers see and write to.
type Stage struct {
	opts Options
	// the generated clients take none
	ctx    context.Context
	known  map[id]state
	listed map[collection]error
	failed map[id]error
	unread map[string]bool
	// made counts the objects that were made, and changes the writes.
	made, changes int
	// before are the objects that Try may take back, as they were; nil while nobody tries.
	before map[id]state
	caches map[schema.GroupVersionKind]applyset.Still
	// decoded are objects with their type, which are never changed either.
	decoded map[*unstructured.Unstructured]any
}

// id names an object, and collection all of a kind in a namespace.
type (
	id struct {
		gvk             schema.GroupVersionKind
		namespace, name string
	}
	collection struct {
		gvk       schema.GroupVersionKind
		namespace string
	}
	// state is an object as it was found and as it is now; nil is absent. Objects in it are never changed.
	state struct{ found, now *unstructured.Unstructured }
)

// New returns a stage on which everything is as it is live.
func New(ctx context.Context, opts Options) *Stage {
	return &Stage{
		opts: opts, ctx: ctx, known: map[id]state{}, listed: map[collection]error{}, failed: map[id]error{}, unread: map[string]bool{},
		caches: map[schema.GroupVersionKind]applyset.Still{}, decoded: map[*unstructured.Unstructured]any{},
	}
}

// Assume makes all that was written until now what there is: it is no difference.
func (s *Stage) Assume() {
	for key, one := range s.known {
		s.known[key] = state{found: one.now, now: one.now}
	}
}

// Changes counts the writes that changed something.
func (s *Stage) Changes() int { return s.changes }

// Try runs something that acts on the stage. When it asks for what cannot be read, what it has written is taken back, and why it was not read is returned
// in place of its error: nobody knows what it would have done.
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

// ResourceOf is what the resource of a kind is called, for all kinds that controllers of Drover read.
func ResourceOf(gvk schema.GroupVersionKind) schema.GroupVersionResource {
	return gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + "s")
}

func (s *Stage) live(gvk schema.GroupVersionKind, namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return s.opts.Live.Resource(ResourceOf(gvk))
	}
	return s.opts.Live.Resource(ResourceOf(gvk)).Namespace(namespace)
}

// note remembers what could not be read, because the user may not or because the API server fails, and returns the error of it.
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

// look returns an object that must not be changed.
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
	case listed && !apierrors.IsForbidden(err): // who may not list may get; one who does not answer is not asked for each
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

// everywhere is where the objects of all namespaces are, and those of none.
const everywhere = ""

// list returns the objects of a kind in a namespace, by name. They must not be changed.
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

// ReadAll reads the objects of a kind in the namespace of the cluster with one request, where they would be asked for one by one. That the user may only
// get them is no error.
func (s *Stage) ReadAll(gvk schema.GroupVersionKind) {
	all := collection{gvk, s.opts.Namespace}
	if _, asked := s.listed[all]; !asked {
		s.listed[all] = s.read(all)
	}
}

// ReadEverywhere has indexes of a kind show the objects of all namespaces, as the caches of the server do. Without it, or where it fails, they show those in
// the namespace of the cluster.
func (s *Stage) ReadEverywhere(gvk schema.GroupVersionKind) error {
	all := collection{gvk, everywhere}
	err := s.read(all)
	if err == nil {
		s.listed[all], s.listed[collection{gvk, s.opts.Namespace}] = nil, nil
	}
	return err
}

// indexed is whose objects the indexes of a kind show.
func (s *Stage) indexed(gvk schema.GroupVersionKind) string {
	if _, all := s.listed[collection{gvk, everywhere}]; all {
		return everywhere
	}
	return s.opts.Namespace
}

func (s *Stage) read(all collection) error {
	opts := metav1.ListOptions{}
	if all.gvk == secretKind {
		opts.FieldSelector = clients.NotHelm // as the caches of the server do
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

// put makes an object what it is from now on. Nil takes it away.
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

// fillToken does what the API server does for the Secret of a service account's token, but for a token that is good for something.
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

// errVersion is what is wrong with a write of an old version.
var errVersion = errors.New("the object has been changed since")

const statusField = "status"

// update writes all of an object but its status, or its status alone. A write that changes nothing is none.
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
		s.put(key, nil) // nobody holds it any more
	} else {
		s.put(key, after)
	}
	return after.DeepCopy(), nil
}

// next is a version after another one.
func next(version string) string {
	number, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return version + "'"
	}
	return strconv.FormatUint(number+1, 10)
}

// delete takes an object away, or marks it as deleted while somebody holds it.
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

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
}

// Stage holds the objects that the controllers read and write.
type Stage struct {
	Options
	// the generated clients take no context
	ctx context.Context
	// management is the name of the management cluster and of its namespace. now is the creation time of new objects.
	management string
	now        time.Time
	known      map[id]state
	listed     map[collection]error
	unread     map[string]bool
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
	// state is an object as found and as it is now; nil is absent. Its objects are never changed. err is why a read
	// has failed.
	state struct {
		found, now *unstructured.Unstructured
		err        error
	}
)

// New returns a stage without differences from the live objects.
func New(ctx context.Context, opts Options) *Stage {
	return &Stage{
		Options: opts, ctx: ctx, known: map[id]state{}, listed: map[collection]error{}, unread: map[string]bool{},
		caches: map[schema.GroupVersionKind]applyset.Still{}, decoded: map[*unstructured.Unstructured]any{},
	}
}

// Begin prepares the stage for writes. management is the name of the management cluster, empty if there is none. now
// is the creation time of all new objects.
func (s *Stage) Begin(management string, now time.Time) { s.management, s.now = management, now }

// Assume treats all writes until now as live: they are no differences.
func (s *Stage) Assume() {
	for key, one := range s.known {
		one.found = one.now
		s.known[key] = one
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

// resourceOf returns the resource of a kind, for all kinds that Drover's controllers read.
func resourceOf(gvk schema.GroupVersionKind) schema.GroupVersionResource {
	return gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + "s")
}

func (s *Stage) live(all collection) dynamic.ResourceInterface {
	return s.Live.Resource(resourceOf(all.gvk)).Namespace(all.namespace)
}

// note records what could not be read, because of a missing permission or a failing API server. It returns err.
func (s *Stage) note(err error, verb string, of collection) error {
	what := verb + " " + resourceOf(of.gvk).GroupResource().String()
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
	return found.DeepCopy(), err
}

// look returns an object that the caller must not change.
func (s *Stage) look(key id) (*unstructured.Unstructured, error) {
	all := collection{key.gvk, key.namespace}
	one, known := s.known[key]
	if !known {
		switch err, listed := s.listed[all]; {
		case listed && err == nil: // the list had no such object
		// A user without list permission may have get; after another list error, get is not tried.
		case listed && !apierrors.IsForbidden(err):
			return nil, s.note(err, "list", all)
		default:
			one.now, one.err = s.live(all).Get(s.ctx, key.name, metav1.GetOptions{})
			if one.err != nil {
				one.now = nil
			} else {
				one.now.SetGroupVersionKind(key.gvk)
			}
			one.found = one.now
			s.known[key] = one
		}
	}
	switch {
	case one.now != nil:
		return one.now, nil
	case one.err == nil:
		return nil, apierrors.NewNotFound(resourceOf(key.gvk).GroupResource(), key.name)
	case apierrors.IsNotFound(one.err):
		return nil, one.err
	}
	return nil, s.note(one.err, "get", all)
}

var secretKind = corev1.SchemeGroupVersion.WithKind("Secret")

// everywhere selects all namespaces, and objects without one.
const everywhere = ""

// list returns the objects of a kind in a namespace, by name. The caller must not change them.
func (s *Stage) list(gvk schema.GroupVersionKind, namespace string) ([]*unstructured.Unstructured, error) {
	all := collection{gvk, namespace}
	if err := s.readOnce(all); err != nil {
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
func (s *Stage) ReadAll(gvk schema.GroupVersionKind) { _ = s.readOnce(collection{gvk, s.Namespace}) }

// ReadEverywhere makes indexes of a kind cover all namespaces, like the caches of the server. Without it, or if it
// fails, they cover the namespace of the cluster.
func (s *Stage) ReadEverywhere(gvk schema.GroupVersionKind) error {
	all := collection{gvk, everywhere}
	err := s.read(all)
	if err == nil {
		s.listed[all], s.listed[collection{gvk, s.Namespace}] = nil, nil
	}
	return err
}

func (s *Stage) readOnce(all collection) error {
	err, asked := s.listed[all]
	if !asked {
		err = s.read(all)
		s.listed[all] = err
	}
	return err
}

func (s *Stage) read(all collection) error {
	opts := metav1.ListOptions{}
	if all.gvk == secretKind {
		opts.FieldSelector = clients.NotHelm // like the caches of the server
	}
	found, err := s.live(all).List(s.ctx, opts)
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
		if one, known := s.known[key]; !known || one.err != nil {
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

func (s *Stage) create(gvk schema.GroupVersionKind, object *unstructured.Unstructured) (*unstructured.Unstructured,
	error) {
	key := id{gvk, object.GetNamespace(), object.GetName()}
	if _, err := s.look(key); err == nil {
		return nil, apierrors.NewAlreadyExists(resourceOf(gvk).GroupResource(), key.name)
	} else if !apierrors.IsNotFound(err) {
		return nil, err
	}
	s.made++
	made := object.DeepCopy()
	made.SetGroupVersionKind(gvk)
	made.SetUID(types.UID(fmt.Sprintf("rehearsed-%d", s.made)))
	made.SetResourceVersion("1")
	made.SetGeneration(1)
	made.SetCreationTimestamp(metav1.NewTime(s.now))
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
	annotations, accounts := secret.GetAnnotations(), corev1.SchemeGroupVersion.WithKind("ServiceAccount")
	account, err := s.look(id{accounts, secret.GetNamespace(), annotations[corev1.ServiceAccountNameKey]})
	if err != nil {
		return err
	}
	annotations[corev1.ServiceAccountUIDKey] = string(account.GetUID())
	secret.SetAnnotations(annotations)
	return unstructured.SetNestedField(secret.Object, "cmVoZWFyc2Vk", "data", corev1.ServiceAccountTokenKey)
}

// errVersion is the cause of a conflict.
var errVersion = errors.New("the object has been changed since")

const statusField = "status"

// update writes an object without its status.
func (s *Stage) update(
	gvk schema.GroupVersionKind, object *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	return s.write(gvk, object, false)
}

// updateStatus writes only the status of an object.
func (s *Stage) updateStatus(
	gvk schema.GroupVersionKind, object *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	return s.write(gvk, object, true)
}

// write ignores a write that changes nothing.
func (s *Stage) write(
	gvk schema.GroupVersionKind, object *unstructured.Unstructured, onlyStatus bool,
) (*unstructured.Unstructured, error) {
	key := id{gvk, object.GetNamespace(), object.GetName()}
	before, err := s.get(key)
	if err != nil {
		return nil, err
	}
	if version := object.GetResourceVersion(); version != "" && version != before.GetResourceVersion() {
		return nil, apierrors.NewConflict(resourceOf(gvk).GroupResource(), key.name, errVersion)
	}
	after, from := object.DeepCopy(), before
	if onlyStatus {
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

// delete removes an object, or marks it as deleted while a finalizer holds it. It ignores preconditions: controllers
// take them from the same stage.
func (s *Stage) delete(key id) error {
	held, err := s.get(key)
	switch {
	case err != nil:
		return err
	case len(held.GetFinalizers()) == 0:
		s.put(key, nil)
	case held.GetDeletionTimestamp() == nil:
		held.SetDeletionTimestamp(new(metav1.NewTime(s.now)))
		held.SetResourceVersion(next(held.GetResourceVersion()))
		s.put(key, held)
	}
	return nil
}

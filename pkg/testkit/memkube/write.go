package memkube

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	errPrecondition = errors.New("the precondition of the deletion does not hold")
	errOtherUID     = errors.New("the UID in the precondition is not the UID of the object")
	errModified     = errors.New(
		"the object has been modified; please apply your changes to the latest version and try again")
)

func (s *Server) create(t *table, r *Request) (response, error) {
	obj, err := s.decode(r)
	if err != nil {
		return response{}, err
	}
	if r.Name != "" && obj.GetName() == "" {
		obj.SetName(r.Name)
	}
	it, err := s.insert(t, r.Namespace, obj, r.dryRun())
	if err != nil {
		return response{}, err
	}
	r.Name = it.obj.GetName() // for the log
	return response{code: http.StatusCreated, body: it.raw}, nil
}

// insert stores a new object.
func (s *Server) insert(t *table, namespace string, obj *unstructured.Unstructured, dryRun bool) (*item, error) {
	if err := s.placeIn(t, namespace, obj); err != nil {
		return nil, err
	}
	if obj.GetName() == "" && obj.GetGenerateName() != "" {
		obj.SetName(fmt.Sprintf("%s%05d", obj.GetGenerateName(), s.uids+1))
	}
	if obj.GetName() == "" {
		return nil, apierrors.NewInvalid(t.gvk().GroupKind(), "",
			field.ErrorList{field.Required(field.NewPath("metadata", "name"), "name or generateName is required")})
	}
	key := keyOf(obj.GetNamespace(), obj.GetName())
	if t.items[key] != nil {
		return nil, apierrors.NewAlreadyExists(t.gr, obj.GetName())
	}
	if obj.GetResourceVersion() != "" {
		return nil, apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
	}
	if t.status {
		delete(obj.Object, "status")
	}
	obj.SetUID(s.newUID())
	obj.SetCreationTimestamp(metav1.NewTime(now()))
	unstructured.RemoveNestedField(obj.Object, "metadata", "deletionTimestamp")
	unstructured.RemoveNestedField(obj.Object, "metadata", "selfLink")
	if t.custom || obj.Object["spec"] != nil {
		obj.SetGeneration(1)
	}
	obj, err := s.admit(t, obj, nil)
	if err != nil {
		return nil, err
	}
	if dryRun {
		return transient(obj), nil
	}
	it := s.put(t, key, obj)
	s.afterPut(t, key, nil)
	if len(obj.GetOwnerReferences()) > 0 && !s.hasLivingOwner(obj) {
		s.startDeletion(t, key, t.items[key].obj, metav1.DeletePropagationBackground)
	}
	return it, nil
}

// placeIn checks and sets the namespace.
func (s *Server) placeIn(t *table, namespace string, obj *unstructured.Unstructured) error {
	if !t.namespaced {
		if namespace != "" {
			return noSuchPath()
		}
		obj.SetNamespace("")
		return nil
	}
	if obj.GetNamespace() != "" && obj.GetNamespace() != namespace {
		return apierrors.NewBadRequest(
			"the namespace of the provided object does not match the namespace sent on the request")
	}
	obj.SetNamespace(namespace)
	return s.checkNamespace(t, obj)
}

func (s *Server) update(t *table, r *Request) (response, error) {
	key, it, err := s.find(t, r)
	if err != nil {
		if apierrors.IsNotFound(err) && r.contentType == string(applyPatch) && r.Subresource == "" {
			return s.create(t, r)
		}
		return response{}, err
	}
	known := r.Subresource == "" || r.Subresource == "status" && t.status || r.Subresource == "finalize" &&
		t.gr == namespaces
	if !known {
		return response{}, noSuchPath()
	}
	next, err := s.proposed(t, r, it.obj)
	if err != nil {
		return response{}, err
	}
	stored, err := s.replace(t, key, it, next, r.Subresource, r.dryRun())
	if err != nil {
		return response{}, err
	}
	return response{code: http.StatusOK, body: stored.raw}, nil
}

// proposed returns the object that a PUT or PATCH asks for.
func (s *Server) proposed(t *table, r *Request, current *unstructured.Unstructured) (*unstructured.Unstructured,
	error) {
	if r.Verb == "patch" {
		return s.patched(t, r, current)
	}
	next, err := s.decode(r)
	if err != nil {
		return nil, err
	}
	if next.GetName() != r.Name {
		return nil, apierrors.NewBadRequest("the name of the object does not match the name on the URL")
	}
	if t.custom && next.GetResourceVersion() == "" {
		return nil, apierrors.NewInvalid(t.gvk().GroupKind(), r.Name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update"),
		})
	}
	return next, nil
}

// replace stores a changed object. It does nothing if the object is equal to the stored one.
func (s *Server) replace(t *table, key string, it *item, next *unstructured.Unstructured, subresource string,
	dryRun bool) (*item, error) {
	current := it.obj
	if rv := next.GetResourceVersion(); rv != "" && rv != current.GetResourceVersion() {
		return nil, apierrors.NewConflict(t.gr, current.GetName(), errModified)
	}
	if uid := next.GetUID(); uid != "" && uid != current.GetUID() {
		return nil, apierrors.NewConflict(t.gr, current.GetName(), errOtherUID)
	}
	next = s.mergeParts(t, current, next, subresource)
	keepServerFields(current, next)
	next, err := s.admit(t, next, current)
	if err != nil {
		return nil, err
	}
	next.SetGroupVersionKind(t.gvk())
	if equality.Semantic.DeepEqual(current.Object, next.Object) {
		return it, nil
	}
	if current.GetGeneration() > 0 && !sameSpec(t, current, next) {
		next.SetGeneration(current.GetGeneration() + 1)
	}
	if dryRun {
		return transient(next), nil
	}
	stored := s.store(t, key, next)
	s.afterPut(t, key, it)
	return stored, nil
}

// mergeParts limits a write to its part of the object: the status, or the rest.
func (s *Server) mergeParts(t *table, current, next *unstructured.Unstructured,
	subresource string) *unstructured.Unstructured {
	switch {
	case subresource == "status":
		status, exists := next.Object["status"]
		next = current.DeepCopy()
		if exists {
			next.Object["status"] = status
		} else {
			delete(next.Object, "status")
		}
	case t.status:
		if status, exists := current.Object["status"]; exists {
			next.Object["status"] = runtime.DeepCopyJSONValue(status)
		} else {
			delete(next.Object, "status")
		}
	}
	return next
}

// keepServerFields restores the fields that only the server sets.
func keepServerFields(current, next *unstructured.Unstructured) {
	next.SetNamespace(current.GetNamespace())
	next.SetName(current.GetName())
	next.SetUID(current.GetUID())
	next.SetCreationTimestamp(current.GetCreationTimestamp())
	next.SetResourceVersion(current.GetResourceVersion())
	if current.GetGeneration() > 0 {
		next.SetGeneration(current.GetGeneration())
	} else {
		unstructured.RemoveNestedField(next.Object, "metadata", "generation")
	}
	if stamp := current.GetDeletionTimestamp(); stamp != nil {
		next.SetDeletionTimestamp(stamp)
		next.SetDeletionGracePeriodSeconds(current.GetDeletionGracePeriodSeconds())
	} else {
		unstructured.RemoveNestedField(next.Object, "metadata", "deletionTimestamp")
	}
}

// sameSpec reports whether two objects are equal except for metadata and status.
func sameSpec(t *table, a, b *unstructured.Unstructured) bool {
	without := func(u *unstructured.Unstructured) map[string]any {
		rest := map[string]any{}
		for k, v := range u.Object {
			if k == "metadata" || k == "status" && t.status {
				continue
			}
			rest[k] = v
		}
		return rest
	}
	return equality.Semantic.DeepEqual(without(a), without(b))
}

func (s *Server) delete(t *table, r *Request) (response, error) {
	key, it, err := s.find(t, r)
	if err != nil {
		return response{}, err
	}
	opts, err := deleteOptions(r)
	if err != nil {
		return response{}, err
	}
	if err := checkDeletion(t, it.obj, opts); err != nil {
		return response{}, err
	}
	if r.dryRun() {
		return response{code: http.StatusOK, body: it.raw}, nil
	}
	gone := s.startDeletion(t, key, it.obj, policyOf(opts))
	return response{code: http.StatusOK, body: gone.raw}, nil
}

func (s *Server) deleteCollection(t *table, r *Request) (response, error) {
	f, err := newFilter(r)
	if err != nil {
		return response{}, err
	}
	opts, err := deleteOptions(r)
	if err != nil {
		return response{}, err
	}
	for _, key := range sortedKeys(t.items) {
		if it := t.items[key]; it != nil && f.matches(it.obj) {
			s.startDeletion(t, key, it.obj, policyOf(opts))
		}
	}
	return answer(http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status: metav1.StatusSuccess}), nil
}

func deleteOptions(r *Request) (metav1.DeleteOptions, error) {
	opts := metav1.DeleteOptions{}
	body := r.Body
	if r.contentType == runtime.ContentTypeProtobuf && len(body) > 0 {
		converted, err := fromProtobuf(body)
		if err != nil {
			return opts, err
		}
		body = converted
	}
	if len(strings.TrimSpace(string(body))) > 0 {
		if err := json.Unmarshal(body, &opts); err != nil {
			return opts, apierrors.NewBadRequest("options of the deletion: " + err.Error())
		}
	}
	if policy := metav1.DeletionPropagation(r.query.Get("propagationPolicy")); policy != "" {
		opts.PropagationPolicy = &policy
	}
	return opts, nil
}

func policyOf(opts metav1.DeleteOptions) metav1.DeletionPropagation {
	if opts.PropagationPolicy != nil {
		return *opts.PropagationPolicy
	}
	return metav1.DeletePropagationBackground
}

// transient returns an object as the server would store it.
func transient(obj *unstructured.Unstructured) *item {
	raw, err := json.Marshal(obj.Object)
	must(err)
	return &item{obj: obj, raw: raw}
}

package memkube

import (
	"context"
	"encoding/base64"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// admit sets the defaults of an object and rejects what the API server would reject. Current is nil for a new object.
func (s *Server) admit(t *table, obj, current *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	switch t.gr.String() {
	case "secrets":
		return obj, admitSecret(t, obj, current)
	case "namespaces":
		admitNamespace(obj, current)
		return obj, nil
	case "jobs.batch":
		return obj, admitJob(t, obj, current)
	}
	return t.admitCustom(obj, current)
}

// admitCustom validates a custom resource by its schema. Of an update it rejects only new errors, so an object that is
// older than a rule can still get a status and lose a finalizer.
func (t *table) admitCustom(obj, current *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	validator, err := t.schemaOf()
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if validator == nil {
		return obj, nil
	}
	obj.SetGroupVersionKind(t.gvk())
	result := validator.Create(context.Background(), obj.Object)
	if len(result.Errors) > 0 && current != nil {
		result.Errors = validator.Update(context.Background(), current.Object, result.Stored).Errors
	}
	if len(result.Errors) > 0 {
		return nil, apierrors.NewInvalid(t.gvk().GroupKind(), obj.GetName(), result.Errors)
	}
	return &unstructured.Unstructured{Object: result.Stored}, nil
}

// admitSecret moves stringData into data. It rejects changes of the type and of immutable Secrets.
func admitSecret(t *table, obj, current *unstructured.Unstructured) error {
	if plain, found, _ := unstructured.NestedStringMap(obj.Object, "stringData"); found {
		for key, value := range plain {
			must(unstructured.SetNestedField(obj.Object, base64.StdEncoding.EncodeToString([]byte(value)), "data", key))
		}
		delete(obj.Object, "stringData")
	}
	if kind, _, _ := unstructured.NestedString(obj.Object, "type"); kind == "" {
		obj.Object["type"] = string(corev1.SecretTypeOpaque)
	}
	if current == nil {
		return nil
	}
	if obj.Object["type"] != current.Object["type"] {
		return invalid(t, obj, field.NewPath("type"))
	}
	if immutable, _, _ := unstructured.NestedBool(current.Object, "immutable"); immutable &&
		!equality.Semantic.DeepEqual(obj.Object["data"], current.Object["data"]) {
		return invalid(t, obj, field.NewPath("data"))
	}
	return nil
}

// admitJob rejects changes of a Job's template and of its completion fields.
func admitJob(t *table, obj, current *unstructured.Unstructured) error {
	if current == nil {
		return nil
	}
	for _, name := range []string{"template", "completions", "selector"} {
		before, _, _ := unstructured.NestedFieldNoCopy(current.Object, "spec", name)
		after, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "spec", name)
		if !equality.Semantic.DeepEqual(before, after) {
			return invalid(t, obj, field.NewPath("spec", name))
		}
	}
	return nil
}

func invalid(t *table, obj *unstructured.Unstructured, path *field.Path) error {
	return apierrors.NewInvalid(t.gvk().GroupKind(), obj.GetName(),
		field.ErrorList{field.Invalid(path, "", "field is immutable")})
}

// afterPut handles the consequences of a write: it serves resources of new definitions and creates tokens. Before is
// nil when the object is new.
func (s *Server) afterPut(t *table, key string, before *item) {
	it := t.items[key]
	if it == nil {
		return
	}
	switch t.gr.String() {
	case "customresourcedefinitions.apiextensions.k8s.io":
		if before == nil || !sameSpec(t, before.obj, it.obj) {
			s.establish(t, key, it.obj)
		}
	case "secrets":
		s.fillToken(t, key, it.obj)
	case "serviceaccounts":
		s.fillTokensOf(it.obj)
	}
}

// afterRemove handles the consequences of a deletion.
func (s *Server) afterRemove(t *table, obj *unstructured.Unstructured) {
	if t.gr.String() == "customresourcedefinitions.apiextensions.k8s.io" {
		group, _, _ := unstructured.NestedString(obj.Object, "spec", "group")
		plural, _, _ := unstructured.NestedString(obj.Object, "spec", "names", "plural")
		s.undefine(schema.GroupResource{Group: group, Resource: plural})
	}
	if namespace := obj.GetNamespace(); namespace != "" {
		s.finishNamespace(namespace)
	}
}

// establish serves the resource of a CRD and sets the CRD's status.
func (s *Server) establish(t *table, key string, obj *unstructured.Unstructured) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	must(runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, crd))
	s.define(crd)
	stamp := metav1.NewTime(now())
	crd.Status.AcceptedNames = crd.Spec.Names
	for _, v := range crd.Spec.Versions {
		if v.Storage && !slices.Contains(crd.Status.StoredVersions, v.Name) {
			crd.Status.StoredVersions = append(crd.Status.StoredVersions, v.Name)
		}
	}
	crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{
		{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue, LastTransitionTime: stamp,
			Reason: "NoConflicts", Message: "no conflicts found"},
		{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue, LastTransitionTime: stamp,
			Reason: "InitialNamesAccepted", Message: "the initial names have been accepted"},
	}
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&crd.Status)
	must(err)
	next := obj.DeepCopy()
	next.Object["status"] = status
	s.put(t, key, next)
}

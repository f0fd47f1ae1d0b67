package memkube

import (
	"encoding/json"
	"errors"
	"net/http"

	jsonpatch "github.com/evanphx/json-patch"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

const applyPatch = types.ApplyPatchType

// decode reads the body as an object.
func (s *Server) decode(r *Request) (*unstructured.Unstructured, error) {
	body := r.Body
	switch r.contentType {
	case "", "application/json":
	case runtime.ContentTypeProtobuf:
		converted, err := fromProtobuf(body)
		if err != nil {
			return nil, err
		}
		body = converted
	case string(applyPatch), "application/yaml":
		converted, err := yaml.YAMLToJSON(body)
		if err != nil {
			return nil, apierrors.NewBadRequest("body: " + err.Error())
		}
		body = converted
	default:
		return nil, unsupported(r.contentType)
	}
	return toObject(body)
}

// fromProtobuf converts the body that typed clients send for Kubernetes' own kinds into JSON. The answer is JSON too.
func fromProtobuf(body []byte) ([]byte, error) {
	obj, _, err := serializer.NewCodecFactory(kubescheme.Scheme).UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, apierrors.NewBadRequest("body: " + err.Error())
	}
	return json.Marshal(obj)
}

func toObject(body []byte) (*unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(body, &obj.Object); err != nil {
		return nil, apierrors.NewBadRequest("body: " + err.Error())
	}
	if obj.Object == nil {
		return nil, apierrors.NewBadRequest("body: no object")
	}
	dropNulls(obj.Object)
	return obj, nil
}

func unsupported(contentType string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType,
		Reason:  metav1.StatusReasonUnsupportedMediaType,
		Message: "the body of the request was in an unknown format: " + contentType,
	}}
}

// dropNulls removes the nulls that Go types encode for empty times.
func dropNulls(object map[string]any) {
	if metadata, ok := object["metadata"].(map[string]any); ok {
		for key, value := range metadata {
			if value == nil {
				delete(metadata, key)
			}
		}
	}
	for key, value := range object {
		if value == nil {
			delete(object, key)
		}
	}
}

// patched applies a patch to the current object.
func (s *Server) patched(t *table, r *Request, current *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	before, err := json.Marshal(current.Object)
	must(err)
	var after []byte
	switch types.PatchType(r.contentType) {
	case types.MergePatchType:
		after, err = jsonpatch.MergePatch(before, r.Body)
	case applyPatch:
		var body []byte
		if body, err = yaml.YAMLToJSON(r.Body); err == nil {
			after, err = jsonpatch.MergePatch(before, body)
		}
	case types.JSONPatchType:
		after, err = jsonPatched(before, r.Body)
	case types.StrategicMergePatchType:
		typed, newErr := s.scheme.New(t.gvk())
		if newErr != nil || t.custom {
			return nil, unsupported(r.contentType)
		}
		after, err = strategicpatch.StrategicMergePatch(before, r.Body, typed)
	default:
		return nil, unsupported(r.contentType)
	}
	if known := apierrors.APIStatus(nil); errors.As(err, &known) {
		return nil, err
	}
	if err != nil {
		return nil, apierrors.NewBadRequest("patch: " + err.Error())
	}
	return toObject(after)
}

// jsonPatched answers a patch whose test fails, or whose path is missing, as the API server does. That answer names no
// field, which distinguishes it from the answer about an invalid object.
func jsonPatched(before, patch []byte) ([]byte, error) {
	decoded, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	after, err := decoded.Apply(before)
	if err != nil {
		return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "",
			err.Error(), 0, false)
	}
	return after, nil
}

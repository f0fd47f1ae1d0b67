package memkube

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func (s *Server) find(t *table, r *Request) (string, *item, error) {
	key := keyOf(r.Namespace, r.Name)
	it := t.items[key]
	if it == nil {
		return key, nil, apierrors.NewNotFound(t.gr, r.Name)
	}
	return key, it, nil
}

func (s *Server) get(t *table, r *Request) (response, error) {
	_, it, err := s.find(t, r)
	if err != nil {
		return response{}, err
	}
	return response{code: http.StatusOK, body: it.raw}, nil
}

// partialOf returns the metadata of an object.
func partialOf(obj *unstructured.Unstructured) []byte {
	encoded, err := json.Marshal(map[string]any{
		"apiVersion": metav1.SchemeGroupVersion.String(), "kind": "PartialObjectMetadata",
		"metadata": obj.Object["metadata"],
	})
	must(err)
	return encoded
}

// list answers a list request, with metadata only if the client asks for that. It ignores limits and always returns the
// whole list.
func (s *Server) list(t *table, r *Request) (response, error) {
	f, err := newFilter(r)
	if err != nil {
		return response{}, err
	}
	version, kind := t.gvk().GroupVersion().String(), t.kind+"List"
	if r.partial {
		version, kind = metav1.SchemeGroupVersion.String(), "PartialObjectMetadataList"
	}
	head, err := json.Marshal(map[string]any{
		"apiVersion": version, "kind": kind,
		"metadata": map[string]string{"resourceVersion": strconv.FormatInt(s.rv, 10)},
	})
	must(err)
	var body bytes.Buffer
	body.Write(head[:len(head)-1])
	body.WriteString(`,"items":`)
	first := true
	for _, key := range sortedKeys(t.items) {
		it := t.items[key]
		if !f.matches(it.obj) {
			continue
		}
		body.WriteByte(map[bool]byte{true: '[', false: ','}[first])
		first = false
		if r.partial {
			body.Write(partialOf(it.obj))
		} else {
			body.Write(it.raw)
		}
	}
	switch {
	case !first:
		body.WriteString("]}")
	case r.partial:
		body.WriteString("null}") // as the API server does
	default:
		body.WriteString("[]}")
	}
	return response{code: http.StatusOK, body: body.Bytes()}, nil
}

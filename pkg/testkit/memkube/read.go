package memkube

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// list answers a list. It is never cut into pieces: a limit is a wish.
func (s *Server) list(t *table, r *Request) (response, error) {
	f, err := newFilter(r)
	if err != nil {
		return response{}, err
	}
	head, err := json.Marshal(map[string]any{
		"apiVersion": t.gvk().GroupVersion().String(), "kind": t.kind + "List",
		"metadata": map[string]string{"resourceVersion": strconv.FormatInt(s.rv, 10)},
	})
	must(err)
	var body bytes.Buffer
	body.Write(head[:len(head)-1])
	body.WriteString(`,"items":[`)
	first := true
	for _, key := range sortedKeys(t.items) {
		it := t.items[key]
		if !f.matches(it.obj) {
			continue
		}
		if !first {
			body.WriteByte(',')
		}
		first = false
		body.Write(it.raw)
	}
	body.WriteString("]}")
	return response{code: http.StatusOK, body: body.Bytes()}, nil
}

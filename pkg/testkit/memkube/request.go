package memkube

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Request is a request for a resource, as Intercept sees it.
type Request struct {
	// Agent is the user agent of the client.
	Agent string
	// Verb is get, list, watch, create, update, patch, delete or deletecollection.
	Verb string
	// Resource is the resource in the group and version of the request.
	Resource schema.GroupVersionResource
	// Subresource is status, token, eviction or empty.
	Subresource string
	// Namespace and Name are empty when the request has none.
	Namespace, Name string
	// Body is the body of the request.
	Body []byte

	query       url.Values
	partial     bool // the client asks for metadata only
	contentType string
	user        string
}

// serve answers any request.
func (s *Server) serve(req *http.Request) response {
	if s.authorize != nil {
		if err := s.authorize(req); err != nil {
			return failure(err)
		}
	}
	if r, ok := s.discover(req.URL.Path); ok {
		return r
	}
	r, err := parse(req)
	if err != nil {
		return failure(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isCut(r.Agent) {
		return response{drop: true}
	}
	for _, refuses := range []func(Request) error{s.permit, s.intercept} {
		if refuses == nil {
			continue
		}
		if err := refuses(*r); err != nil {
			s.record(*r, err)
			return failure(err)
		}
	}
	answer, err := s.dispatch(r)
	s.record(*r, err)
	if err != nil {
		return failure(err)
	}
	return answer
}

func (s *Server) dispatch(r *Request) (response, error) {
	if answer, ok, err := s.virtual(r); ok {
		return answer, err
	}
	t := s.tables[r.Resource.GroupResource()]
	if t == nil || !t.serves(r.Resource.Version) {
		return response{}, noSuchPath()
	}
	switch r.Verb {
	case "get":
		return s.get(t, r)
	case "list":
		return s.list(t, r)
	case "watch":
		return s.watch(t, r)
	case "create":
		return s.create(t, r)
	case "update", "patch":
		return s.update(t, r)
	case "delete":
		return s.delete(t, r)
	case "deletecollection":
		return s.deleteCollection(t, r)
	}
	return response{}, apierrors.NewMethodNotSupported(r.Resource.GroupResource(), r.Verb)
}

// parse reads a resource request from its URL.
func parse(req *http.Request) (*Request, error) {
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	r := &Request{Agent: req.UserAgent(), query: req.URL.Query(),
		user: strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ")}
	r.partial = strings.Contains(req.Header.Get("Accept"), "as=PartialObjectMetadataList")
	r.contentType, _, _ = strings.Cut(req.Header.Get("Content-Type"), ";")
	switch {
	case parts[0] == "api" && len(parts) > 2:
		r.Resource.Version, parts = parts[1], parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		r.Resource.Group, r.Resource.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return nil, noSuchPath()
	}
	// A namespace has only two subresources. Any other path below a namespace is a resource in it.
	if parts[0] == "namespaces" && len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
		r.Namespace, parts = parts[1], parts[2:]
	}
	r.Resource.Resource = parts[0]
	if len(parts) > 1 {
		r.Name = parts[1]
	}
	if len(parts) > 2 {
		r.Subresource = parts[2]
	}
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, apierrors.NewBadRequest("read body: " + err.Error())
		}
		r.Body = body
	}
	r.Verb = verb(req.Method, r)
	if err := r.selectName(); err != nil {
		return nil, err
	}
	return r, nil
}

func verb(method string, r *Request) string {
	switch method {
	case http.MethodGet:
		if watch := r.query.Get("watch"); watch == "true" || watch == "1" {
			return "watch"
		}
		if r.Name == "" {
			return "list"
		}
		return "get"
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		if r.Name == "" {
			return "deletecollection"
		}
		return "delete"
	}
	return strings.ToLower(method)
}

// selectName converts a watch of one object into a watch with a field selector.
func (r *Request) selectName() error {
	if r.Verb != "watch" || r.Name == "" {
		return nil
	}
	if r.query.Get("fieldSelector") != "" {
		return apierrors.NewBadRequest("a watch of one object takes no field selector")
	}
	r.query.Set("fieldSelector", "metadata.name="+r.Name)
	r.Name = ""
	return nil
}

func (r *Request) dryRun() bool { return r.query.Get("dryRun") == "All" }

func noSuchPath() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
		Message: "the server could not find the requested resource",
	}}
}

func failure(err error) response {
	status := metav1.Status{}
	if known := apierrors.APIStatus(nil); errors.As(err, &known) {
		status = known.Status()
	} else {
		status = apierrors.NewInternalError(err).Status()
	}
	status.Kind, status.APIVersion = "Status", "v1"
	return answer(int(status.Code), status)
}

func answer(code int, v any) response {
	body, err := json.Marshal(v)
	must(err)
	return response{code: code, body: body}
}

func newBody(b []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(b)) }

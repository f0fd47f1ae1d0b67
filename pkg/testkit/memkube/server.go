package memkube

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Options configure a Server. The zero value serves Kubernetes' own kinds.
type Options struct {
	// Scheme has the kinds that are served from the start, and the types for strategic patches. The Server always
	// serves Kubernetes' own kinds.
	Scheme *runtime.Scheme
	// CRDs are installed from the start. They replace the same kinds in Scheme.
	CRDs []*apiextensionsv1.CustomResourceDefinition
	// Namespaces exist from the start, in addition to default and kube-system.
	Namespaces []string
	// Version is the version that /version returns, v1.36.3 by default.
	Version string
	// Authorize may reject a request before the Server handles it. It returns a Status error of package apierrors.
	Authorize func(*http.Request) error
	// Permit may reject a parsed request for a resource in the same way. It must not call the Server.
	Permit func(Request) error
}

// Server is an API server in memory. Its methods are safe for concurrent use.
type Server struct {
	scheme    *runtime.Scheme
	version   string
	authorize func(*http.Request) error
	permit    func(Request) error

	mu         sync.Mutex
	rv         int64
	uids       int64
	tables     map[schema.GroupResource]*table
	owners     map[string]map[itemRef]bool // UID of an owner to its dependents
	uidsAlive  map[string]itemRef
	foreground map[itemRef]bool // owners that may wait for their dependents
	log        []Entry
	cuts       map[string]*cut
	intercept  func(Request) error
	watched    map[watched]bool
	lagging    string // the user agent of clients whose watches lag
	lag        func(resource string) time.Duration
}

// New returns a Server.
func New(opts Options) *Server {
	s := &Server{
		scheme: runtime.NewScheme(), version: opts.Version, authorize: opts.Authorize, permit: opts.Permit,
		tables: map[schema.GroupResource]*table{}, owners: map[string]map[itemRef]bool{},
		uidsAlive: map[string]itemRef{},
		cuts:      map[string]*cut{}, watched: map[watched]bool{}, foreground: map[itemRef]bool{},
	}
	if s.version == "" {
		s.version = "v1.36.3"
	}
	must(kubescheme.AddToScheme(s.scheme))
	must(apiextensionsv1.AddToScheme(s.scheme))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serveScheme(s.scheme)
	if opts.Scheme != nil {
		s.scheme = opts.Scheme
		s.serveScheme(opts.Scheme)
	}
	for _, namespace := range append([]string{"default", "kube-system"}, opts.Namespaces...) {
		s.addNamespace(namespace)
	}
	next := s.uids + reserved
	s.uids = definitions
	for _, crd := range opts.CRDs {
		s.mustAdd(crd)
	}
	s.uids = next
	return s
}

// UIDs are numbers. Workers choose their servers by UID, so an additional definition must not change the UIDs of other
// objects.
const (
	// definitions begins the range of the definitions from Options.
	definitions = 1_000_000
	// reserved is how many numbers are left out before the first object of a test.
	reserved = 11
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// Config returns the configuration of a client with that user agent.
func (s *Server) Config(userAgent string) *rest.Config {
	return &rest.Config{Host: "http://memkube", Transport: s, QPS: -1, UserAgent: userAgent}
}

// response is the answer to a request: a body, or a stream that lasts until its context ends.
type response struct {
	code   int
	body   []byte
	stream func(write func([]byte) error, done <-chan struct{})
	drop   bool // the connection breaks without an answer
}

// errDropped is the error of a client that was cut off.
type errDropped struct{}

func (errDropped) Error() string   { return "memkube: connection refused: the client was disconnected" }
func (errDropped) Timeout() bool   { return false }
func (errDropped) Temporary() bool { return false }

// RoundTrip answers a request of a client in this process.
func (s *Server) RoundTrip(req *http.Request) (*http.Response, error) {
	r := s.serve(req)
	if req.Body != nil {
		_ = req.Body.Close()
	}
	if r.drop {
		return nil, errDropped{}
	}
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	out := &http.Response{
		StatusCode: r.code, Status: strconv.Itoa(r.code) + " " + http.StatusText(r.code),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: int64(len(r.body)),
	}
	if r.stream == nil {
		out.Body = newBody(r.body)
		return out, nil
	}
	reader, writer := io.Pipe()
	ctx, cancel := context.WithCancel(req.Context())
	out.Body, out.ContentLength = stream{reader, cancel}, -1
	go func() {
		defer cancel()
		r.stream(func(b []byte) error { _, err := writer.Write(b); return err }, ctx.Done())
		_ = writer.Close()
	}()
	return out, nil
}

// stream is the body of a watch. As over a connection, closing it ends the watch.
type stream struct {
	*io.PipeReader
	end context.CancelFunc
}

// Close implements io.Closer.
func (s stream) Close() error {
	s.end()
	return s.PipeReader.Close()
}

// CancelRequest does nothing, because the Server answers every request except a watch at once. Clients with a time-out
// require the method.
func (s *Server) CancelRequest(*http.Request) {}

// ServeHTTP answers a request that came over a connection.
func (s *Server) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r := s.serve(req)
	if r.drop {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(r.code)
	if r.stream == nil {
		_, _ = w.Write(r.body)
		return
	}
	flusher, _ := w.(http.Flusher)
	if flusher != nil {
		flusher.Flush()
	}
	r.stream(func(b []byte) error {
		_, err := w.Write(b)
		if flusher != nil {
			flusher.Flush()
		}
		return err
	}, req.Context().Done())
}

// now is the timestamp for objects, in whole seconds as in the API.
func now() time.Time { return time.Now().UTC().Truncate(time.Second) }

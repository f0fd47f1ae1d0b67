package memkube

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func secondsOf(n int64) time.Duration { return time.Duration(n) * time.Second }

// Entry is a request in the log.
type Entry struct {
	// Agent, Verb, Resource ("machines.cluster.x-k8s.io/status"), Namespace and Name describe the request. Name is
	// empty for an object that could not be created.
	Agent, Verb, Resource, Namespace, Name string
	// Code is the HTTP status of the answer. Every success is 200.
	Code int
}

// Write reports whether the verb of the request writes.
func (e Entry) Write() bool { return e.Verb != "get" && e.Verb != "list" && e.Verb != "watch" }

// String returns a line for the output of tests.
func (e Entry) String() string {
	return strings.Join([]string{e.Agent, e.Verb, e.Resource, e.Namespace + "/" + e.Name}, " ")
}

func (s *Server) record(r Request, err error) {
	e := Entry{Agent: r.Agent, Verb: r.Verb, Resource: r.Resource.GroupResource().String(), Namespace: r.Namespace,
		Name: r.Name, Code: http.StatusOK}
	if r.Subresource != "" {
		e.Resource += "/" + r.Subresource
	}
	if err != nil {
		e.Code = http.StatusInternalServerError
		if known := apierrors.APIStatus(nil); errors.As(err, &known) {
			e.Code = int(known.Status().Code)
		}
	}
	s.log = append(s.log, e)
	if e.Write() && err == nil {
		s.countDown(r.Agent)
	}
}

// Log returns all requests since the last ResetLog.
func (s *Server) Log() []Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// Writes returns the writes since the last ResetLog, including rejected ones, of clients whose user agent has that
// prefix.
func (s *Server) Writes(agent string) []Entry {
	return slices.DeleteFunc(s.Log(), func(e Entry) bool { return !e.Write() || !strings.HasPrefix(e.Agent, agent) })
}

// Written returns the number of successful writes of those clients, which CutAfter counts.
func (s *Server) Written(agent string) int {
	return len(slices.DeleteFunc(s.Writes(agent), func(e Entry) bool { return e.Code != http.StatusOK }))
}

// Count returns the number of requests per "verb resource" of clients whose user agent has that prefix.
func (s *Server) Count(agent string) map[string]int {
	counts := map[string]int{}
	for _, e := range s.Log() {
		if strings.HasPrefix(e.Agent, agent) {
			counts[e.Verb+" "+e.Resource]++
		}
	}
	return counts
}

// ResetLog clears the log.
func (s *Server) ResetLog() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = nil
}

// cut is a planned or active cut of the clients with a prefix.
type cut struct {
	left int // writes until the cut; 0 means cut
	then func()
}

// CutAfter lets clients whose user agent has that prefix write n more times. Then it breaks all their connections, as
// if their process had ended between two writes. With n = 0 it cuts them off at once. After the cut, `then` runs in its
// own goroutine if it is not nil, and may stop the process's controllers.
func (s *Server) CutAfter(agent string, n int, then func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cuts[agent] = &cut{left: n, then: then}
}

// Mend lets clients with that prefix connect again.
func (s *Server) Mend(agent string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.cuts, agent)
}

func (s *Server) isCut(agent string) bool {
	for prefix, c := range s.cuts {
		if strings.HasPrefix(agent, prefix) && c.left == 0 {
			return true
		}
	}
	return false
}

func (s *Server) countDown(agent string) {
	for prefix, c := range s.cuts {
		if !strings.HasPrefix(agent, prefix) || c.left == 0 {
			continue
		}
		c.left--
		if c.left == 0 && c.then != nil {
			go c.then()
		}
	}
}

// Intercept calls f before each request. If f returns an error, that is the answer, usually a Status error of package
// apierrors. Nil ends the interception. F must not call the Server.
func (s *Server) Intercept(f func(Request) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intercept = f
}

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
	// Agent, Verb, Resource ("machines.cluster.x-k8s.io/status"), Namespace and Name are those of the request. Name is empty
	// for an object that could not be made.
	Agent, Verb, Resource, Namespace, Name string
	// Code is the HTTP status of the answer; 200 for every success.
	Code int
}

// Write reports whether the request could have changed something.
func (e Entry) Write() bool { return e.Verb != "get" && e.Verb != "list" && e.Verb != "watch" }

// String is a line for the output of tests.
func (e Entry) String() string {
	return strings.Join([]string{e.Agent, e.Verb, e.Resource, e.Namespace + "/" + e.Name}, " ")
}

func (s *Server) record(r Request, err error) {
	e := Entry{Agent: r.Agent, Verb: r.Verb, Resource: r.Resource.GroupResource().String(), Namespace: r.Namespace, Name: r.Name, Code: http.StatusOK}
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

// Writes returns the writes of clients whose user agent has that prefix since the last ResetLog, refused ones included.
func (s *Server) Writes(agent string) []Entry {
	return slices.DeleteFunc(s.Log(), func(e Entry) bool { return !e.Write() || !strings.HasPrefix(e.Agent, agent) })
}

// Written returns how many of those writes went through: as many as CutAfter counts.
func (s *Server) Written(agent string) int {
	return len(slices.DeleteFunc(s.Writes(agent), func(e Entry) bool { return e.Code != http.StatusOK }))
}

// Count returns how often each "verb resource" was asked for by clients whose user agent has that prefix.
func (s *Server) Count(agent string) map[string]int {
	counts := map[string]int{}
	for _, e := range s.Log() {
		if strings.HasPrefix(e.Agent, agent) {
			counts[e.Verb+" "+e.Resource]++
		}
	}
	return counts
}

// ResetLog forgets all requests.
func (s *Server) ResetLog() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = nil
}

// cut is what is planned for the clients with a prefix.
type cut struct {
	left int // writes until the cut; 0 is cut
	then func()
}

// CutAfter lets clients whose user agent has that prefix write n more times, then breaks every connection of theirs, as if
// their process had ended between two writes. Then, if it is not nil, runs in a goroutine of its own: it may stop the
// process's controllers. With n = 0 they are cut off at once.
func (s *Server) CutAfter(agent string, n int, then func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cuts[agent] = &cut{left: n, then: then}
}

// Mend lets clients with that prefix in again.
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

// Intercept calls f before each request; when it returns an error, that is the answer: a Status error of package apierrors
// says which. Nil ends it. F must not call the Server.
func (s *Server) Intercept(f func(Request) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intercept = f
}

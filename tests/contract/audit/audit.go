// Package audit reads the audit log of an embedded API server, for tests that count writes.
package audit

import (
	"strings"
	"time"
)

// refused is the value of the annotation authorization.k8s.io/decision for requests without the necessary right.
const refused = "forbid"

// writes are the verbs of write requests.
var writes = []string{"create", "update", "patch", "delete", "deletecollection"}

// Write is one answered write request to the API server, from its audit log.
type Write struct {
	// UserAgent is the client's user agent. User is the authenticated user.
	UserAgent string
	User      string
	// Verb is create, update, patch, delete or deletecollection.
	Verb        string
	Group       string
	Resource    string
	Subresource string
	Namespace   string
	Name        string
	// DryRun reports whether the server was asked to store nothing.
	DryRun bool
	// Code is the HTTP status of the answer. Rejected writes are included, because they cost a round trip too.
	Code int
	// Time is the time at which the server received the request.
	Time time.Time
}

// Bookkeeping reports whether a write concerns Leases or Events, which do not change the world.
func (w Write) Bookkeeping() bool { return w.Resource == "leases" || w.Resource == "events" }

// auditEvent is the part of audit.k8s.io/v1 Event that this package reads.
type auditEvent struct {
	Stage     string `json:"stage"`
	Verb      string `json:"verb"`
	UserAgent string `json:"userAgent"`
	// RequestURI is the path and the query.
	RequestURI string `json:"requestURI"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
		APIGroup    string `json:"apiGroup"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	RequestReceivedTimestamp time.Time         `json:"requestReceivedTimestamp"`
	Annotations              map[string]string `json:"annotations"`
}

func (e auditEvent) request() Write {
	return Write{
		UserAgent: e.UserAgent, User: e.User.Username, Verb: e.Verb,
		Group: e.ObjectRef.APIGroup, Resource: e.ObjectRef.Resource, Subresource: e.ObjectRef.Subresource,
		Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name,
		DryRun: strings.Contains(e.RequestURI, "dryRun="), Code: e.ResponseStatus.Code,
		Time: e.RequestReceivedTimestamp,
	}
}

// ReadWrites returns the writes in an audit log in the order of their answers. A log that does not exist yet has none.
// ReadWrites ignores an incomplete last line.
func ReadWrites(path string) ([]Write, error) {
	var out []Write
	err := readAudit(path, func(event auditEvent) {
		if event.isWrite() {
			out = append(out, event.request())
		}
	})
	return out, err
}

// ReadRefusals returns the requests of the users in managementplane.Config.AuditUsers that were rejected for a missing
// right. The log contains no reads of other users.
func ReadRefusals(path string) ([]Write, error) {
	var out []Write
	err := readAudit(path, func(event auditEvent) {
		if event.Annotations["authorization.k8s.io/decision"] == refused {
			out = append(out, event.request())
		}
	})
	return out, err
}

// tokenOrAccess reports whether a group has objects that are created but never stored, such as access reviews.
func tokenOrAccess(group string) bool {
	return group == "authentication.k8s.io" || group == "authorization.k8s.io"
}

func readAudit(path string, each func(auditEvent)) error {
	follower := Follow(path)
	defer func() { _ = follower.Close() }()
	return follower.read(each)
}

// CountByAgent counts writes by the first word of the user agent, the client's name, without its version: "drover/v1
// (linux)" counts as "drover".
func CountByAgent(writes []Write) map[string]int {
	counts := map[string]int{}
	for _, write := range writes {
		agent, _, _ := strings.Cut(write.UserAgent, " ")
		agent, _, _ = strings.Cut(agent, "/")
		counts[agent]++
	}
	return counts
}

package managementplane

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
)

// refused is the value of annotation authorization.k8s.io/decision, with which the API server marks what it refuses for want of a right.
const refused = "forbid"

// writes are the verbs of writes.
var writes = []string{"create", "update", "patch", "delete", "deletecollection"}

// Write is one answered write request to the API server, from its audit log.
type Write struct {
	// UserAgent is what the client calls itself, User whom the server took it for.
	UserAgent string
	User      string
	// Verb is create, update, patch, delete or deletecollection.
	Verb        string
	Group       string
	Resource    string
	Subresource string
	Namespace   string
	Name        string
	// Code is the HTTP status of the answer. A refused write is a write, too: it cost a round trip.
	Code int
	// Time is when the server received the request.
	Time time.Time
}

// Bookkeeping tells writes that clients do to exist, Leases and Events, from those that change something.
func (w Write) Bookkeeping() bool { return w.Resource == "leases" || w.Resource == "events" }

// auditEvent is the part of audit.k8s.io/v1 Event that is read.
type auditEvent struct {
	Stage     string `json:"stage"`
	Verb      string `json:"verb"`
	UserAgent string `json:"userAgent"`
	User      struct {
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
		Code: e.ResponseStatus.Code, Time: e.RequestReceivedTimestamp,
	}
}

// ReadWrites reads the writes in an audit log in the order in which they were answered. A log that does not exist yet
// holds none. The last line may still be in the making; it is left out.
func ReadWrites(path string) ([]Write, error) {
	var out []Write
	err := readAudit(path, func(event auditEvent) {
		if slices.Contains(writes, event.Verb) && !tokenOrAccess(event.ObjectRef.APIGroup) {
			out = append(out, event.request())
		}
	})
	return out, err
}

// ReadRefusals reads what the users that Config.AuditUsers names were refused for want of a right. Of the reads of others the log says nothing.
func ReadRefusals(path string) ([]Write, error) {
	var out []Write
	err := readAudit(path, func(event auditEvent) {
		if event.Annotations["authorization.k8s.io/decision"] == refused {
			out = append(out, event.request())
		}
	})
	return out, err
}

// tokenOrAccess tells the groups whose objects are created and never stored: they are questions.
func tokenOrAccess(group string) bool {
	return group == "authentication.k8s.io" || group == "authorization.k8s.io"
}

func readAudit(path string, each func(auditEvent)) error {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read audit log: %w", err)
	}
	defer file.Close()
	reader := bufio.NewReader(file)
	for number := 1; ; number++ {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read audit log: %w", err)
		}
		var event auditEvent
		if err := json.Unmarshal(line, &event); err != nil {
			return fmt.Errorf("read audit log: line %d: %w", number, err)
		}
		if event.Stage == "ResponseComplete" {
			each(event)
		}
	}
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

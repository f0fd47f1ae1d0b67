package managementplane

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
)

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
	RequestReceivedTimestamp time.Time `json:"requestReceivedTimestamp"`
}

// ReadWrites reads the writes in an audit log in the order in which they were answered. A log that does not exist yet
// holds none. The last line may still be in the making; it is left out.
func ReadWrites(path string) ([]Write, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	defer file.Close()
	var out []Write
	reader := bufio.NewReader(file)
	for number := 1; ; number++ {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read audit log: %w", err)
		}
		var event auditEvent
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, fmt.Errorf("read audit log: line %d: %w", number, err)
		}
		if event.Stage != "ResponseComplete" {
			continue
		}
		out = append(out, Write{
			UserAgent: event.UserAgent, User: event.User.Username, Verb: event.Verb,
			Group: event.ObjectRef.APIGroup, Resource: event.ObjectRef.Resource, Subresource: event.ObjectRef.Subresource,
			Namespace: event.ObjectRef.Namespace, Name: event.ObjectRef.Name,
			Code: event.ResponseStatus.Code, Time: event.RequestReceivedTimestamp,
		})
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

package clusterproxy

import (
	"time"

	"github.com/sirupsen/logrus"
)

// Stage is when a Record was made.
type Stage string

// The stages. Only long-running requests have a start.
const (
	StageStarted Stage = "started"
	StageEnded   Stage = "ended"
)

// Record describes one request, without headers, bodies, queries and tokens.
type Record struct {
	Stage Stage
	// Time is when the request arrived.
	Time time.Time
	// RequestID is the Audit-ID. The cluster's own audit log contains it too.
	RequestID string
	// User is the caller's name in the management cluster, or empty if unknown.
	User string
	// Impersonated is the user that the caller asked to impersonate, or empty.
	Impersonated string
	// Downstream is the user name that the cluster sees. It is empty when nothing was forwarded and no token was
	// issued.
	Downstream string
	// TokenID is the identifier of the issued token for the cluster's authorized endpoint, or empty. The cluster's
	// audit logs contain it.
	TokenID string
	// Cluster identifies the cluster. It is empty when the path names none.
	Cluster string
	// Verb is the Kubernetes verb (get, list, watch, create, …). For non-resource requests it is the method in lower
	// case.
	Verb string
	// Method is the HTTP method.
	Method string
	// Path is the escaped path in the cluster without the query, cut after 1,024 bytes.
	Path string
	// LongRunning means that the request has no deadline.
	LongRunning bool
	// Status is the code of the answer. It is 499 when the client disconnected first, and 0 at the start.
	Status int
	// Cut means that the answer ended before it was complete.
	Cut bool
	// Reason is why Drover ended a long-running request, or empty: the caller lost the permission, or Drover could not
	// check it for too long.
	Reason string
	// Duration is the time since the request arrived.
	Duration time.Duration
	// Received and Sent are the bytes of bodies from and to the client. After an upgrade they count all bytes.
	Received, Sent int64
}

// maxAuditPath is the longest path in a Record, in bytes.
const maxAuditPath = 1024

// logRecords writes Records to a log at level info.
func logRecords(log logrus.FieldLogger) func(Record) {
	return func(r Record) {
		if !logsInfo(log) {
			return // avoid the cost of building the message
		}
		fields := logrus.Fields{
			"stage": string(r.Stage), "requestID": r.RequestID, "user": r.User, "clusterID": r.Cluster, "verb": r.Verb,
			"method": r.Method, "path": r.Path,
			"longRunning": r.LongRunning, "received": r.Time.UTC().Format(time.RFC3339Nano),
		}
		if r.Impersonated != "" {
			fields["impersonated"] = r.Impersonated
		}
		if r.Downstream != "" {
			fields["downstreamUser"] = r.Downstream
		}
		if r.TokenID != "" {
			fields["tokenID"] = r.TokenID
		}
		if r.Reason != "" {
			fields["reason"] = r.Reason
		}
		if r.Stage == StageEnded {
			fields["status"], fields["cut"], fields["duration"] = r.Status, r.Cut, r.Duration.String()
			fields["bytesReceived"], fields["bytesSent"] = r.Received, r.Sent
		}
		log.WithFields(fields).Info("Request to a cluster")
	}
}

func logsInfo(log logrus.FieldLogger) bool {
	switch log := log.(type) {
	case *logrus.Logger:
		return log.IsLevelEnabled(logrus.InfoLevel)
	case *logrus.Entry:
		return log.Logger.IsLevelEnabled(logrus.InfoLevel)
	}
	return true
}

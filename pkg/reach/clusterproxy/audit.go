package clusterproxy

import (
	"time"

	"github.com/sirupsen/logrus"
)

// Stage says when a Record was made.
type Stage string

// The stages. A request that is not long-running has only its end.
const (
	StageStarted Stage = "started"
	StageEnded   Stage = "ended"
)

// Record tells of one request, without headers, bodies, queries and tokens.
type Record struct {
	Stage Stage
	// Time is when the request came.
	Time time.Time
	// RequestID is the Audit-ID that the cluster's own audit log has, too.
	RequestID string
	// User is the caller's name in the management cluster; empty when it is not known.
	User string
	// Impersonated is the user that the caller asked to act as; empty for itself.
	Impersonated string
	// Downstream is the user name that the cluster sees; empty when nothing was forwarded and no token was made.
	Downstream string
	// TokenID is the identifier of the token for the cluster's authorized endpoint that was made; empty when none was. Audit logs of the cluster have it.
	TokenID string
	// Cluster identifies the cluster; empty when the path names none.
	Cluster string
	// Verb is that of Kubernetes (get, list, watch, create, …), or the method in lower case for what is no resource.
	Verb string
	// Method is that of HTTP.
	Method string
	// Path is what the cluster is asked for: the escaped path without the query, cut after 1,024 bytes.
	Path string
	// LongRunning says that the request has no deadline.
	LongRunning bool
	// Status is the code of the answer; 499 when the client went away before there was one, 0 at the start.
	Status int
	// Cut says that the answer ended before it was complete.
	Cut bool
	// Duration is the time since the request came.
	Duration time.Duration
	// Received and Sent are the bytes of bodies that came from the client and went to it; after an upgrade, all bytes.
	Received, Sent int64
}

// maxAuditPath is the longest path in a Record, in bytes.
const maxAuditPath = 1024

// logRecords writes Records to a log, unless that takes nothing but warnings.
func logRecords(log logrus.FieldLogger) func(Record) {
	return func(r Record) {
		if !informs(log) {
			return // before all that is made of it
		}
		fields := logrus.Fields{
			"stage": string(r.Stage), "requestID": r.RequestID, "user": r.User, "clusterID": r.Cluster, "verb": r.Verb, "method": r.Method, "path": r.Path,
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
		if r.Stage == StageEnded {
			fields["status"], fields["cut"], fields["duration"] = r.Status, r.Cut, r.Duration.String()
			fields["bytesReceived"], fields["bytesSent"] = r.Received, r.Sent
		}
		log.WithFields(fields).Info("Request to a cluster")
	}
}

func informs(log logrus.FieldLogger) bool {
	switch log := log.(type) {
	case *logrus.Logger:
		return log.IsLevelEnabled(logrus.InfoLevel)
	case *logrus.Entry:
		return log.Logger.IsLevelEnabled(logrus.InfoLevel)
	}
	return true
}

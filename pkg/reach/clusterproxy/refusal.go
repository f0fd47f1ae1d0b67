package clusterproxy

import (
	"encoding/json"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// refusal is an answer of Drover instead of the cluster's. Its message is for the client. It contains only data that
// the client sent or may know.
type refusal struct {
	code       int
	reason     metav1.StatusReason
	message    string
	retryAfter int // seconds; 0 for none
	// rejected is the limit that the request exceeds, for metrics, or "".
	rejected string
}

// Limits that a request exceeds, as values of a label of metrics.
const (
	rejectedFull   = "queue-full"
	rejectedLate   = "queue-timeout"
	rejectedLong   = "long-running"
	rejectedTokens = "unknown-tokens"
)

// Error makes a refusal an error.
func (r *refusal) Error() string { return r.message }

// statusClientClosed is the code of requests whose client disconnected. Only the audit log contains it.
const statusClientClosed = 499

func badRequest(message string) *refusal {
	return &refusal{code: http.StatusBadRequest, reason: metav1.StatusReasonBadRequest, message: message}
}

func forbidden(message string) *refusal {
	return &refusal{code: http.StatusForbidden, reason: metav1.StatusReasonForbidden, message: message}
}

// noAccess is identical for existing and missing clusters.
func noAccess(who, cluster string) *refusal {
	return forbidden("user " + quote(who) + " may not access cluster " + quote(cluster))
}

func unavailable(message string, retryAfter int) *refusal {
	return &refusal{code: http.StatusServiceUnavailable, reason: metav1.StatusReasonServiceUnavailable,
		message: message, retryAfter: retryAfter}
}

func notConnected(cluster string) *refusal {
	return unavailable("cluster "+quote(cluster)+" is not connected: its agent must connect to this server first", 5)
}

func tooMany(rejected string) *refusal {
	return &refusal{
		code: http.StatusTooManyRequests, reason: metav1.StatusReasonTooManyRequests,
		message: "too many requests at once, please try again later", retryAfter: 1, rejected: rejected,
	}
}

func unauthorized() *refusal {
	return &refusal{code: http.StatusUnauthorized, reason: metav1.StatusReasonUnauthorized, message: "Unauthorized"}
}

func notFound(cluster string) *refusal {
	return &refusal{code: http.StatusNotFound, reason: metav1.StatusReasonNotFound, message: "cluster " +
		quote(cluster) + " not found"}
}

func quote(text string) string { return strconv.Quote(text) }

// write answers with a Status, which Kubernetes clients understand.
func (r *refusal) write(w http.ResponseWriter) {
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(r.code), Reason: r.reason, Message: r.message,
	}
	header := w.Header()
	if r.retryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(r.retryAfter))
		status.Details = &metav1.StatusDetails{RetryAfterSeconds: int32(r.retryAfter)}
	}
	if r.code == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", `Bearer realm="drover"`)
	}
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-cache, private")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Del("Content-Length")
	w.WriteHeader(r.code)
	_ = json.NewEncoder(w).Encode(status) // fails only when the client has disconnected
}

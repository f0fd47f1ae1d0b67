package ui

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Reasons of failures.
const (
	reasonUnauthorized = "Unauthorized"
	reasonForbidden    = "Forbidden"
	reasonNotFound     = "NotFound"
	reasonInvalid      = "Invalid"
	reasonTooMany      = "TooManyRequests"
	reasonTimeout      = "Timeout"
	reasonInternal     = "Internal"
)

// failure is the error of a request.
type failure struct {
	status  int
	reason  string
	message string
	// retry is for Retry-After; zero omits it.
	retry time.Duration
}

// Error implements error.
func (f failure) Error() string { return f.message }

// errorBody is the JSON of a failure.
type errorBody struct {
	Error  string `json:"error"`
	Reason string `json:"reason"`
}

func invalid(message string) failure {
	return failure{http.StatusBadRequest, reasonInvalid, message, 0}
}

func forbidden(message string) failure {
	return failure{http.StatusForbidden, reasonForbidden, message, 0}
}

func notFound(message string) failure {
	return failure{http.StatusNotFound, reasonNotFound, message, 0}
}

func unauthorized(message string) failure {
	return failure{http.StatusUnauthorized, reasonUnauthorized, message, 0}
}

func tooMany(message string, retry time.Duration) failure {
	return failure{http.StatusTooManyRequests, reasonTooMany, message, retry}
}

// adviceOfCommands is advice in errors of package operate that helps only on a command line.
const adviceOfCommands = "; -n names another one"

// failureOf converts an error. The API server answers the caller's own requests, so its sentences go to the caller.
func failureOf(err error) failure {
	if known, ok := errors.AsType[failure](err); ok {
		return known
	}
	if _, ok := errors.AsType[keyError](err); ok {
		return failure{http.StatusInternalServerError, reasonInternal,
			"the server cannot read the key that seals sessions; its log says why", 0}
	}
	text := strings.ReplaceAll(err.Error(), adviceOfCommands, "")
	switch {
	case apierrors.IsUnauthorized(err):
		return unauthorized("the management cluster no longer accepts the token; sign in again")
	case apierrors.IsForbidden(err):
		return forbidden(text)
	case apierrors.IsNotFound(err):
		return notFound(text)
	case apierrors.IsTooManyRequests(err):
		return tooMany(text, time.Second)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return invalid(text)
	case errors.Is(err, context.DeadlineExceeded), apierrors.IsTimeout(err), apierrors.IsServerTimeout(err):
		return failure{http.StatusGatewayTimeout, reasonTimeout, text, 0}
	}
	return failure{http.StatusInternalServerError, reasonInternal, text, 0}
}

func writeFailure(w http.ResponseWriter, f failure) {
	if f.retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((f.retry + time.Second - 1).Seconds())))
	}
	writeJSON(w, f.status, errorBody{f.message, f.reason})
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	data, err := json.Marshal(value)
	if err != nil {
		status = http.StatusInternalServerError
		data = []byte(`{"error":"the answer cannot be encoded","reason":"Internal"}`)
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	_, _ = w.Write(data)
}

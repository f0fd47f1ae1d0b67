package ui

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/drover-io/drover/pkg/operate/apply"
	"github.com/drover-io/drover/pkg/operate/edit"
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
	// reasonChanged means that the Cluster is not the one that was previewed. Nothing was written.
	reasonChanged = "Changed"
	reasonExists  = "AlreadyExists"
	// reasonUnknown means that a write may have taken effect.
	reasonUnknown = "Unknown"
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

// failureBody is the JSON of a failure. The problems say why a write was refused.
type failureBody struct {
	errorBody
	Problems []edit.Problem `json:"problems,omitempty"`
}

// refusal is the error of a write that was refused because of what the user has typed.
type refusal struct{ problems []edit.Problem }

// Error implements error.
func (r refusal) Error() string {
	if len(r.problems) == 0 {
		return "the change is not valid"
	}
	return r.problems[0].Message
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
	if known, ok := writeFailureOf(err); ok {
		return known
	}
	if _, ok := errors.AsType[keyError](err); ok {
		return failure{http.StatusInternalServerError, reasonInternal,
			"the server cannot read the key that seals sessions; its log says why", 0}
	}
	text := sentence(err)
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
	case apierrors.IsTimeout(err), apierrors.IsServerTimeout(err):
		return failure{http.StatusGatewayTimeout, reasonTimeout, text, 0}
	}
	if broken := lost(err); broken != nil && !isOfAPI(err) {
		return lostFailure(err, broken)
	}
	return failure{http.StatusInternalServerError, reasonInternal, text, 0}
}

// isStatement reports whether an error is a sentence of package operate about the cluster or the request. The others
// say that a read has failed.
func isStatement(err error) bool {
	return failureOf(err).status == http.StatusInternalServerError && !isOfAPI(err)
}

// writeFailureOf converts an error of a write.
func writeFailureOf(err error) (failure, bool) {
	var partial *apply.PartialError
	switch {
	case errors.As(err, &refusal{}):
		return failure{http.StatusUnprocessableEntity, reasonInvalid, sentence(err), 0}, true
	case errors.As(err, &partial), errors.Is(err, apply.ErrUnknown):
		code := http.StatusBadGateway
		if isTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) {
			code = http.StatusGatewayTimeout
		}
		text := sentence(err)
		if apierrors.IsUnauthorized(err) {
			text += "; sign in again"
		}
		return failure{code, reasonUnknown, text, 0}, true
	case errors.Is(err, edit.ErrChanged):
		return failure{http.StatusPreconditionFailed, reasonChanged, sentence(err), 0}, true
	case errors.Is(err, apply.ErrExists):
		return failure{http.StatusConflict, reasonExists, sentence(err), 0}, true
	}
	return failure{}, false
}

func writeFailure(w http.ResponseWriter, f failure, problems ...edit.Problem) {
	if f.retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((f.retry + time.Second - 1).Seconds())))
	}
	writeJSON(w, f.status, failureBody{errorBody{f.message, f.reason}, problems})
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

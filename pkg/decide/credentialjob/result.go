package credentialjob

import (
	"encoding/json"
	"errors"
	"time"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/outcome"
	"github.com/drover-io/drover/pkg/decide/redact"
)

// Reasons of a result, which are those of condition CloudCredentialValid and of the Event on the Secret.
const (
	// ReasonAccepted: the cloud accepts the credential.
	ReasonAccepted = "CredentialAccepted"
	// ReasonRejected: the cloud does not accept the credential.
	ReasonRejected = "CredentialRejected"
	// ReasonExpired: the credential was valid until a time that has passed.
	ReasonExpired = "CredentialExpired"
	// ReasonUnchecked: there is no answer.
	ReasonUnchecked = "CredentialUnchecked"
	// ReasonInvalid: the keys of the Secret do not fit the driver. There is no Job then.
	ReasonInvalid = "CredentialInvalid"
)

// maxText bounds the message of a result, in bytes.
const maxText = 512

// Result is what a check found out.
type Result struct {
	// Reason is one of the constants.
	Reason string `json:"reason"`
	// Message is a sentence without values of the credential.
	Message string `json:"message"`
	// Checked is when the result was known.
	Checked time.Time `json:"checked,omitzero"`
}

// Status is the status of the condition.
func (r Result) Status() string {
	switch r.Reason {
	case ReasonAccepted:
		return rkev1.ConditionTrue
	case ReasonUnchecked:
		return rkev1.ConditionUnknown
	}
	return rkev1.ConditionFalse
}

// Unchecked is the result without an answer of the cloud.
func Unchecked(why string) Result { return Result{Reason: ReasonUnchecked, Message: public(why)} }

// Refused is the result if the API server refuses the Job.
func Refused(err error, now time.Time) *Result {
	result := Unchecked("the API server refuses the Job of the check: " + err.Error())
	result.Checked = now.UTC().Truncate(time.Second)
	return &result
}

// Encode returns the result as the Job reports it and as the record contains it.
func (r Result) Encode() string {
	encoded, err := json.Marshal(r)
	if err != nil {
		return "" // strings and times always encode
	}
	return string(encoded)
}

var errResult = errors.New("must be a result")

// DecodeResult reads a result. The text of another program cannot become long or unstable.
func DecodeResult(text string) (Result, error) {
	var r Result
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return r, errResult
	}
	switch r.Reason {
	case ReasonAccepted, ReasonRejected, ReasonExpired, ReasonUnchecked:
		r.Message = public(r.Message)
		return r, nil
	}
	return Result{}, errResult
}

// public returns a text for a condition: short, stable, and without what looks like a secret.
func public(text string) string {
	return outcome.Stable(redact.Clip(redact.Text(redact.Clip(text, 2*maxText)), maxText))
}

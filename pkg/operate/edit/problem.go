package edit

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Problem is a mistake in what a user has typed. A manifest with problems cannot be applied.
type Problem struct {
	// Line and Column are the position in the whole text, from 1. They are 0 if the position is unknown.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Field is the path of the field.
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
}

// ProblemsOf converts the errors of fields. The positions are unknown.
func ProblemsOf(errs field.ErrorList) []Problem {
	var out []Problem
	for _, err := range errs {
		out = append(out, Problem{Field: err.Field, Message: MessageOf(err)})
	}
	return out
}

// MessageOf returns the message of an error without its field.
func MessageOf(err *field.Error) string {
	if _, isSaid := err.BadValue.(field.OmitValueType); isSaid && err.Type == field.ErrorTypeInvalid &&
		err.Detail != "" {
		return err.Detail
	}
	return err.ErrorBody()
}

// WrongType converts an error of Typed.
func WrongType(err error) []Problem {
	if known, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return []Problem{{Field: known.Field, Message: "must be " + known.Type.String() + ", not " + known.Value}}
	}
	return []Problem{{Message: err.Error()}}
}

// Distinct drops repeated problems. The API server and the preview find the same mistakes.
func Distinct(problems []Problem) []Problem {
	var out []Problem
	for _, one := range problems {
		isKnown := func(other Problem) bool {
			return other == one || other.Field == one.Field && other.Field != "" &&
				(strings.Contains(other.Message, one.Message) || strings.Contains(one.Message, other.Message))
		}
		if !slices.ContainsFunc(out, isKnown) {
			out = append(out, one)
		}
	}
	return out
}

var strictField = regexp.MustCompile(`(unknown|duplicate) field "([^"]+)"`)

// Refused converts the API server's refusal of an object. It returns nil for an error that is no statement about the
// object: a lost connection, or an expired credential.
func Refused(object *unstructured.Unstructured, err error) []Problem {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || isElsewhere(err, answer.Status().Code) {
		return nil
	}
	status := answer.Status()
	if found := causes(status); len(found) > 0 {
		return found
	}
	if found := strictFields(err, status.Message); len(found) > 0 {
		return found
	}
	if apierrors.IsNotFound(err) && (status.Details == nil || status.Details.Name == "") {
		status.Message = "the management cluster has no kind " + object.GetKind() + "; is its driver active?"
	}
	return []Problem{{Message: status.Message}}
}

// isElsewhere reports whether an answer of the API server says nothing about the object.
func isElsewhere(err error, code int32) bool {
	return apierrors.IsUnauthorized(err) || apierrors.IsTooManyRequests(err) || apierrors.IsConflict(err) ||
		apierrors.IsUnexpectedServerError(err) || code >= serverErrors
}

// strictFields lists the fields that the kind does not have, or that are there twice.
func strictFields(err error, message string) []Problem {
	if !apierrors.IsBadRequest(err) {
		return nil
	}
	var out []Problem
	for _, match := range strictField.FindAllStringSubmatch(message, -1) {
		out = append(out, Problem{Field: match[2], Message: match[1] + " field " + strconv.Quote(match[2])})
	}
	return out
}

// serverErrors is the first code of HTTP that says nothing about the request.
const serverErrors = 500

func causes(status metav1.Status) []Problem {
	if status.Details == nil {
		return nil
	}
	var out []Problem
	for _, cause := range status.Details.Causes {
		if cause.Field == "<nil>" || cause.Type == metav1.CauseType("ResourceVersionTooLarge") {
			cause.Field = ""
		}
		out = append(out, Problem{Field: cause.Field, Message: cause.Message})
	}
	return out
}

package ui

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
)

// noAnswer replaces the error of a connection, because that contains internal addresses.
const noAnswer = "the management cluster did not answer"

// unreadAnswers are the words of client-go for a connection that was lost in the middle of an answer.
var unreadAnswers = []string{"unexpected error when reading response body", "stream error when reading response body"}

// lost returns the error of a connection, nil for all other errors. It is no statement about what a user has typed.
func lost(err error) error {
	switch broken, ok := errors.AsType[*url.Error](err); {
	case err == nil, ok && broken.Op == "parse": // of a text
		return nil
	case ok:
		return broken
	}
	if broken, ok := errors.AsType[net.Error](err); ok {
		return broken
	}
	for _, words := range unreadAnswers {
		if strings.Contains(err.Error(), words) {
			return err
		}
	}
	if errors.Is(err, context.Canceled) {
		return context.Canceled
	}
	return nil
}

// lostFailure is the failure of a request whose connection to the management cluster was lost.
func lostFailure(err, broken error) failure {
	if isTimeout(err) || isTimeout(broken) {
		return failure{http.StatusGatewayTimeout, reasonTimeout, sentence(err), 0}
	}
	return failure{http.StatusBadGateway, reasonInternal, sentence(err), 0}
}

func isTimeout(err error) bool {
	timed, ok := errors.AsType[net.Error](err)
	return ok && timed.Timeout() || errors.Is(err, context.DeadlineExceeded)
}

// sentence returns the text of an error without addresses and without advice for the command line.
func sentence(err error) string {
	text := strings.ReplaceAll(err.Error(), adviceOfCommands, "")
	broken := lost(err)
	if broken == nil {
		return text
	}
	for _, words := range unreadAnswers {
		if before, _, ok := strings.Cut(text, words); ok {
			return before + noAnswer + causeOf(broken)
		}
	}
	return strings.ReplaceAll(text, broken.Error(), noAnswer+causeOf(broken))
}

// causeOf returns why a connection was lost, if that has no address.
func causeOf(broken error) string {
	var number syscall.Errno
	switch {
	case isTimeout(broken):
		return " in time"
	case errors.As(broken, &number):
		return ": " + number.Error()
	case errors.Is(broken, io.EOF), errors.Is(broken, io.ErrUnexpectedEOF):
		return ": the connection was lost"
	}
	return ""
}

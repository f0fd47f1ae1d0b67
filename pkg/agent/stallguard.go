package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

const (
	// answerTimeout is how long a registry may take to begin an answer. Some mirrors fetch the complete layer first.
	answerTimeout = 5 * time.Minute
	// stallTimeout is how long an answer may make no progress.
	stallTimeout = 5 * time.Minute
)

var errStalled = fmt.Errorf("the answer made no progress for %s", stallTimeout)

// stallGuard ends stalled answers. Otherwise a registry that only keeps connections open would block the agent forever,
// and the agent would never try the next registry.
type stallGuard struct{ base http.RoundTripper }

func (t stallGuard) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(request.Context())
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) {
		sent.Store(true)
	}})
	response, err := t.base.RoundTrip(request.WithContext(traced))
	if err != nil {
		cancel(nil)
		if sent.Load() {
			err = final(err)
		}
		return nil, err
	}
	response.Body = &stallGuardBody{ReadCloser: response.Body, ctx: ctx, cancel: cancel}
	return response, nil
}

// final hides a timeout from the registry client. The client would retry a temporary error three times before the agent
// tries the next registry. Errors before the request was sent are still retried.
func final(err error) error {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return fmt.Errorf("no answer: %w", err)
	}
	return err
}

// stallGuardBody limits each read separately, so that a slow reader is not mistaken for a stalled registry.
type stallGuardBody struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
}

func (b *stallGuardBody) Read(p []byte) (int, error) {
	timer := time.AfterFunc(stallTimeout, func() { b.cancel(errStalled) })
	defer timer.Stop()
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && errors.Is(context.Cause(b.ctx), errStalled) {
		err = errStalled
	}
	return n, err
}

func (b *stallGuardBody) Close() error {
	b.cancel(nil)
	return b.ReadCloser.Close()
}

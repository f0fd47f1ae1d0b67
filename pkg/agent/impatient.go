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
	// answerTimeout is how long a registry may take to begin an answer. Some mirrors fetch all of a layer before they do.
	answerTimeout = 5 * time.Minute
	// stallTimeout is how long nothing of an answer may come.
	stallTimeout = 5 * time.Minute
)

var errStalled = fmt.Errorf("nothing of the answer came for %s", stallTimeout)

// impatient ends answers that have ceased to come. A registry that only keeps its connections open would hold the agent for
// ever, and the next one would not be asked.
type impatient struct{ base http.RoundTripper }

func (t impatient) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(request.Context())
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { sent.Store(true) }})
	response, err := t.base.RoundTrip(request.WithContext(traced))
	if err != nil {
		cancel(nil)
		if sent.Load() {
			err = final(err)
		}
		return nil, err
	}
	response.Body = &impatientBody{ReadCloser: response.Body, ctx: ctx, cancel: cancel}
	return response, nil
}

// final hides from the registry client that the want of an answer is temporary: it would wait thrice before the next registry
// is asked. What happens before the request is sent is not for it, and is tried again as ever.
func final(err error) error {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return fmt.Errorf("no answer: %w", err)
	}
	return err
}

// impatientBody gives each read its time, so that a reader who is slow itself is not blamed on the registry.
type impatientBody struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
}

func (b *impatientBody) Read(p []byte) (int, error) {
	timer := time.AfterFunc(stallTimeout, func() { b.cancel(errStalled) })
	defer timer.Stop()
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && errors.Is(context.Cause(b.ctx), errStalled) {
		err = errStalled
	}
	return n, err
}

func (b *impatientBody) Close() error {
	b.cancel(nil)
	return b.ReadCloser.Close()
}

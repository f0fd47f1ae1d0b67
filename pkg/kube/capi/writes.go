package capi

import (
	"context"
	"io"
	"net/http"
	"time"
)

// writeTimeout is how long a write may take.
const writeTimeout = 30 * time.Second

// finishWrites lets a write in progress finish when the controllers end. The next leader then finds it done or not
// done, and no late write follows. A write that has not begun by then is not sent.
type finishWrites struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (f finishWrites) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet || request.Context().Err() != nil {
		return f.RoundTripper.RoundTrip(request)
	}
	limit := time.Now().Add(writeTimeout)
	if given, ok := request.Context().Deadline(); ok && given.Before(limit) {
		limit = given
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(request.Context()), limit)
	answer, err := f.RoundTripper.RoundTrip(request.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	answer.Body = whenClosed{answer.Body, cancel}
	return answer, nil
}

// WrappedRoundTripper gives client-go access to the wrapped transport.
func (f finishWrites) WrappedRoundTripper() http.RoundTripper { return f.RoundTripper }

// whenClosed is a response body that calls then when it is closed.
type whenClosed struct {
	io.ReadCloser
	then func()
}

// Close implements io.Closer.
func (w whenClosed) Close() error {
	defer w.then()
	return w.ReadCloser.Close()
}

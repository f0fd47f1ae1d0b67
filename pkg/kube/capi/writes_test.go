package capi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A write in progress is answered although its controller ends. A read is canceled, and a new write is not sent.
func TestFinishWrites(t *testing.T) {
	arrived, release := make(chan struct{}, 1), make(chan struct{})
	var begun []string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // Only then does the server notice that a client has left.
		begun = append(begun, r.Method)
		arrived <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, "written")
	}))
	defer api.Close()
	client := &http.Client{Transport: finishWrites{http.DefaultTransport}}
	do := func(ctx context.Context, method string) (string, error) {
		request, err := http.NewRequestWithContext(ctx, method, api.URL, strings.NewReader("{}"))
		if err != nil {
			return "", err
		}
		response, err := client.Do(request)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return string(body), err
	}

	for _, method := range []string{http.MethodPatch, http.MethodGet} {
		ctx, end := context.WithCancel(t.Context())
		go func() {
			<-arrived
			end()
			if method == http.MethodPatch {
				release <- struct{}{} // A read gets no answer: the end of its controller ends it.
			}
		}()
		answer, err := do(ctx, method)
		switch {
		case method == http.MethodPatch && (err != nil || answer != "written"):
			t.Errorf("%s: answer %q, error %v", method, answer, err)
		case method == http.MethodGet && !errors.Is(err, context.Canceled):
			t.Errorf("%s: answer %q, error %v, want the end of its context", method, answer, err)
		}
		if answer, err := do(ctx, method); err == nil || len(begun) > 2 {
			t.Errorf("%s after the end: answer %q, begun %v", method, answer, begun)
		}
	}
}

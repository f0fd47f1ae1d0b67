package agent

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"
)

func TestTransport_StalledAnswersEnd(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"
	tests := map[string]struct {
		answer   func(w io.Writer)
		want     string
		stalled  bool
		wantTook time.Duration
	}{
		"registry that never answers": {answer: func(io.Writer) {}, wantTook: 5 * time.Minute},
		"registry that answers late": {
			answer: func(w io.Writer) {
				<-time.After(4 * time.Minute)
				_,
					_ = io.WriteString(w, head+"blob")
			}, want: "blob", wantTook: 4 * time.Minute,
		},
		"answer without a body": {answer: func(w io.Writer) { _, _ = io.WriteString(w, head) }, stalled: true,
			wantTook: 5 * time.Minute},
		"answer that stops in the middle": {answer: func(w io.Writer) { _, _ = io.WriteString(w, head+"bl") },
			want: "bl", stalled: true, wantTook: 5 * time.Minute},
		"answer that is slow but goes on": {
			answer: func(w io.Writer) {
				_, _ = io.WriteString(w, head)
				for _, piece := range []string{"b", "l", "o", "b"} {
					<-time.After(4 * time.Minute)
					_, _ = io.WriteString(w, piece)
				}
			}, want: "blob", wantTook: 16 * time.Minute,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				got, err := ask(t, tc.answer)
				if got != tc.want || (err == nil) != (tc.want == "blob") || errors.Is(err, errStalled) != tc.stalled {
					t.Errorf("got %q, %v", got, err)
				}
				if took := time.Since(began); took != tc.wantTook {
					t.Errorf("took %s, want %s", took, tc.wantTook)
				}
				// The registry client inspects the error itself, not the errors it wraps.
				if temporary, ok := err.(interface{ Temporary() bool }); ok && temporary.Temporary() {
					t.Errorf("the same registry would be asked again after %v", err)
				}
			})
		})
	}
}

// ask reads a blob from a registry whose answer is written by the function.
func ask(t *testing.T, answer func(io.Writer)) (string, error) {
	t.Helper()
	transport, err := registryConfig{}.transport(endpoint{url: &url.URL{Scheme: "http", Host: "registry"}})
	if err != nil {
		t.Fatal(err)
	}
	base := transport.(endpointTransport).base.(stallGuard).base.(*http.Transport)
	base.Proxy = nil
	base.DialContext = func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		t.Cleanup(func() { server.Close() })
		go func() {
			if request, err := http.ReadRequest(bufio.NewReader(server)); err == nil && request.Body.Close() == nil {
				answer(server)
			}
		}()
		return client, nil
	}
	defer base.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://registry/v2/x/blobs/y", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

package inspect

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// The user's clock may be wrong, so the reader uses the API server's time as soon as it is known.
func TestReader_UsesTheAPIServersTime(t *testing.T) {
	t.Parallel()
	users, servers := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r := &Reader{clock: &clock{}, opts: Options{Now: func() time.Time { return users }}}
	if got := r.serverNow(); !got.Equal(users) {
		t.Errorf("before the first answer, the time is %s", got)
	}
	answers := roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{Header: http.Header{"Date": {servers.Format(http.TimeFormat)}},
			Body: io.NopCloser(strings.NewReader(""))}, nil
	})
	response, err := r.clock.watch(answers).RoundTrip(&http.Request{})
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if got := r.serverNow(); !got.Equal(servers) {
		t.Errorf("the time is %s, want %s", got, servers)
	}
}

func TestReadOnly_SendsNothingThatWrites(t *testing.T) {
	below := roundTripper(func(request *http.Request) (*http.Response, error) {
		t.Errorf("sent: %s", request.Method)
		return nil, http.ErrAbortHandler
	})
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		response, err := readOnly{below}.RoundTrip(&http.Request{Method: method, URL: &url.URL{Path: "/x"}})
		if err == nil || !strings.Contains(err.Error(), "only reads") {
			t.Errorf("%s: %v", method, err)
		}
		if response != nil {
			_ = response.Body.Close()
		}
	}
}

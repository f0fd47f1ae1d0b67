package inspect

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The user's clock may be wrong, so the reader uses the API server's time as soon as it is known.
func TestReader_TimeIsThatOfTheAPIServer(t *testing.T) {
	t.Parallel()
	users, servers := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r := &Reader{clock: &clock{}, opts: Options{Now: func() time.Time { return users }}}
	if got := r.serverNow(); !got.Equal(users) {
		t.Errorf("nobody has said what time it is, and it is %s", got)
	}
	answers := roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{Header: http.Header{"Date": {servers.Format(http.TimeFormat)}}, Body: io.NopCloser(strings.NewReader(""))}, nil
	})
	response, err := r.clock.watch(answers).RoundTrip(&http.Request{})
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if got := r.serverNow(); !got.Equal(servers) {
		t.Errorf("it is %s, want %s", got, servers)
	}
}

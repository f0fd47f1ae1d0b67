package ui

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// The listener of Drover limits requests and answers. A stream continues beyond these limits.
func TestStream_OutlivesTheLimitsOfTheListener(t *testing.T) {
	const limit = 200 * time.Millisecond
	for name, http2 := range map[string]bool{"HTTP/1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			f := newFakeAPI(t, cluster("team-a", "one"))
			opts := options(f.serve(t))
			ending := make(chan struct{})
			opts.Ending = ending
			handler, err := New(opts)
			check(t, err)
			server := httptest.NewUnstartedServer(handler)
			server.EnableHTTP2 = http2
			server.Config.ReadTimeout, server.Config.WriteTimeout = limit, limit
			server.StartTLS()
			defer server.Close()
			defer close(ending)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/ui/api/v1/stream", nil)
			check(t, err)
			r.Header.Set("Authorization", "Bearer "+token)
			answer, err := server.Client().Do(r)
			check(t, err)
			defer answer.Body.Close()
			if answer.StatusCode != http.StatusOK || (answer.ProtoMajor == 2) != http2 {
				t.Fatalf("got %s with %s", answer.Status, answer.Proto)
			}
			late := time.AfterFunc(3*limit, func() { check(t, f.Add(cluster("team-a", "late"))) })
			defer late.Stop()
			lines := bufio.NewScanner(answer.Body)
			for lines.Scan() {
				if strings.Contains(lines.Text(), `"name":"late"`) {
					return
				}
			}
			t.Errorf("the stream ended: %v", lines.Err())
		})
	}
}

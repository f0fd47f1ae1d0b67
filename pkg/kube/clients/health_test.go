package clients

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	lassoclient "github.com/rancher/lasso/pkg/client"

	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// slow answers no list while the client waits.
type slow struct{ *memkube.Server }

func (s slow) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "s") && r.URL.Path != "/apis" {
		<-r.Context().Done()
	}
	return s.Server.RoundTrip(r)
}

// Stop ends lists in progress. lasso waits forever for a healthy API server, even for a stopped cache, and holds a lock
// that all others need.
func TestStop_EdgeRunningListsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newAPI(t)
		config := api.Config("ignored")
		config.Transport = slow{api}
		c, err := New(config, Options{})
		check(t, err)
		c.Core.ConfigMap().Cache()
		c.Core.Secret().Cache()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Start(ctx) }()
		pass(time.Second)
		cancel()
		if err := <-ended; err == nil {
			t.Error("unused caches were started")
		}
		c.Stop()
		pass(time.Minute) // the test ends when all goroutines have ended
	})
}

// asked is an API server with a fixed health. It answers when the time of the question is over, or the caller has
// stopped.
type asked struct {
	lassoclient.SharedClientFactory
	healthy bool
	until   func()
}

func (a asked) IsHealthy(context.Context) bool {
	if a.until != nil {
		a.until()
	}
	return a.healthy
}

func TestHealth_CanceledChecksAreHealthy(t *testing.T) {
	for name, tc := range map[string]struct {
		healthy bool
		before  func(cancel context.CancelFunc)
		during  func(cancel context.CancelFunc)
		want    bool
	}{
		"the API server answers":                 {healthy: true, want: true},
		"the API server does not answer":         {},
		"the API server does not answer in time": {during: func(context.CancelFunc) { time.Sleep(time.Minute) }},
		"the caller cancels meanwhile":           {during: func(cancel context.CancelFunc) { cancel() }, want: true},
		"the caller cancelled before":            {before: func(cancel context.CancelFunc) { cancel() }, want: true},
		"the caller's deadline passed before": {before: func(context.CancelFunc) { time.Sleep(time.Minute) },
			want: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
				defer cancel()
				server := asked{healthy: tc.healthy}
				if tc.before != nil {
					tc.before(cancel)
				}
				if tc.during != nil {
					server.until = func() { tc.during(cancel) }
				}
				if got := (endingClients{server}).IsHealthy(ctx); got != tc.want {
					t.Errorf("healthy is %v, want %v", got, tc.want)
				}
			})
		})
	}
}

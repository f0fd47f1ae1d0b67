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

// lasso waits for ever until the API server is healthy for a cache that has stopped, with a lock, for which all others wait.
func TestStop_EdgeListsUnderWayEnd(t *testing.T) {
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
			t.Error("caches that hold nothing were started")
		}
		c.Stop()
		pass(time.Minute) // the test ends when all that was started has
	})
}

// answers is an API server that is healthy or not.
type answers struct {
	lassoclient.SharedClientFactory
	healthy bool
}

func (a answers) IsHealthy(context.Context) bool { return a.healthy }

func TestHealth_WhoHasStoppedWaitsForNothing(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	late, stop := context.WithTimeout(t.Context(), 0)
	defer stop()
	for name, tc := range map[string]struct {
		ctx           context.Context //nolint:containedctx // it is what is tested
		healthy, want bool
	}{
		"the API server answers":             {ctx: t.Context(), healthy: true, want: true},
		"it does not":                        {ctx: t.Context()},
		"it does not answer in time":         {ctx: late},
		"it does not, for who has stopped":   {ctx: canceled, want: true},
		"it answers, which nobody waits for": {ctx: canceled, healthy: true, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (endingClients{answers{healthy: tc.healthy}}).IsHealthy(tc.ctx); got != tc.want {
				t.Errorf("healthy is %v, want %v", got, tc.want)
			}
		})
	}
}

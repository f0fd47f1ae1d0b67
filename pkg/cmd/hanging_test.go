package cmd

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/drover-io/drover/pkg/kube/capi"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/server"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// door stands in front of an API server. While it is shut, it accepts requests and does not answer them.
type door struct {
	below http.RoundTripper
	shut  *atomic.Pointer[chan struct{}]
}

func (d door) RoundTrip(r *http.Request) (*http.Response, error) {
	if opened := d.shut.Load(); opened != nil {
		select {
		case <-*opened:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	return d.below.RoundTrip(r)
}

// An API server that hangs for half a minute ends only a term. Both replicas serve all the time, one leads again soon
// after, and two never lead at once. A slow start of the next term does not end the program either.
func TestLead_HangingAPIServerEndsOnlyTheTerm(t *testing.T) {
	memkube.VirtualTime()
	synctest.Test(t, func(t *testing.T) {
		definitions, err := capi.Definitions()
		check(t, err)
		scheme, err := clients.NewScheme()
		check(t, err)
		api := memkube.New(memkube.Options{Scheme: scheme, CRDs: definitions, Namespaces: []string{leaseNamespace}})
		var shut atomic.Pointer[chan struct{}]
		ctx, cancel := context.WithCancel(t.Context())
		serving, endServing := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		var replicas []*server.Server
		for _, name := range []string{"first", "second"} {
			config := api.Config(name)
			config.Wrap(func(below http.RoundTripper) http.RoundTripper { return door{below, &shut} })
			s, err := server.New(server.Options{
				RESTConfig: config, InstanceID: "test", Version: "test",
				StartTimeout: 10 * time.Second,
				Settings:     server.Settings{ServerURL: "https://drover.example.com"},
			})
			check(t, err)
			check(t, s.Serve(serving))
			replicas = append(replicas, s)
			go func() { ended <- leadWhileHolding(ctx, config, "test", logrus.StandardLogger(), s.Lead) }()
		}
		leaders := func() (leading int) {
			t.Helper()
			for _, s := range replicas {
				if s.Ready() != nil {
					t.Errorf("a replica does not answer: %v", s.Ready())
				}
				if s.Leading() {
					leading++
				}
			}
			return leading
		}
		watch := func(d time.Duration) (most int) {
			t.Helper()
			for range int(d / (100 * time.Millisecond)) {
				time.Sleep(100 * time.Millisecond)
				most = max(most, leaders())
			}
			return most
		}
		if watch(30*time.Second) != 1 {
			t.Fatalf("%d replicas lead", leaders())
		}
		opened := make(chan struct{})
		shut.Store(&opened)
		watch(16 * time.Second)
		if leaders() != 0 {
			t.Error("a replica leads although its lease was not renewed for 16 seconds")
		}
		watch(14 * time.Second)
		shut.Store(nil)
		close(opened)
		if most := watch(30 * time.Second); most != 1 || leaders() != 1 {
			t.Errorf("after the API server answers again, %d replicas lead, at most %d", leaders(), most)
		}
		select {
		case err := <-ended:
			t.Errorf("a replica has ended: %v", err)
		default:
		}
		cancel()
		for range replicas {
			check(t, <-ended)
		}
		endServing()
		settle(time.Minute)
	})
}

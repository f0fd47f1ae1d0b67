package capi

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-io/drover/pkg/testkit/crashpoints"
)

// stuck is an API server that does not answer writes of statuses from a moment on.
type stuck struct {
	http.RoundTripper
	*atomic.Bool
	hung *atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (s stuck) RoundTrip(request *http.Request) (*http.Response, error) {
	if s.Load() && request.Method != http.MethodGet && strings.HasSuffix(request.URL.Path, "/status") {
		s.hung.Add(1)
		<-request.Context().Done()
		return nil, request.Context().Err()
	}
	return s.RoundTripper.RoundTrip(request)
}

// TestThrifty_EndsInTimeIfCutOff: the API server stops answering writes of statuses. The chart gives a server that ends
// the time for a write in flight, and then that for held statuses.
func TestThrifty_EndsInTimeIfCutOff(t *testing.T) {
	crashpoints.SkipRaced(t)
	for name, waited := range map[string]time.Duration{
		"during writes at the end of a window": 5 * time.Second, "before the end of a window": time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				api, hangs, hung := newPlane(t), &atomic.Bool{}, &atomic.Int64{}
				if err := api.Add(pool()); err != nil {
					t.Fatal(err)
				}
				cfg := api.Config("ignored")
				cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return stuck{next, hangs, hung} })
				end := startCore(t, cfg, 3*time.Second)
				time.Sleep(time.Minute)
				hangs.Store(true)
				edit(t, userOf(t, api), func(d *clusterv1.MachineDeployment) { d.Spec.Replicas = new(int32(9)) })
				time.Sleep(waited)
				begin := time.Now()
				if err := end(); err != nil {
					t.Logf("the core ended: %v", err) // its writes were cut off
				}
				took, most := time.Since(begin), writeTimeout+flushTimeout
				t.Logf("the core ended after %s; %d writes hung", took, hung.Load())
				if took > most || hung.Load() == 0 {
					t.Errorf("the core ended after %s, want at most %s; %d writes hung", took, most, hung.Load())
				}
			})
		})
	}
}

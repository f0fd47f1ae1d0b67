package thrifty

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/pkg/server"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

// pause is longer than the core takes between two requests of its first look at all objects.
const pause = 8 * time.Second

// TestNewLeader starts a core that knows nothing of earlier applies. It sends none to settled clusters, because the
// objects show that each would change nothing.
func TestNewLeader(t *testing.T) {
	making := &applies{}
	first := stage.Start(t, stage.Settings{CoreWrites: server.CoreWritesThrifty, Transport: making.transport})
	clusters := first.Apply(plane.Namespace(t), 3, map[string]string{"rke2": stage.RKE2, "k3s": stage.K3s})
	clusters.AwaitReady()
	settle(t, time.Now())
	first.End()
	t.Logf("%d applies have made %d machines", len(making.all()), clusters.Machines*2)

	sent, since := &applies{}, time.Now()
	second := stage.Start(t, stage.Settings{CoreWrites: server.CoreWritesThrifty, World: first.World,
		Transport: sent.transport})
	clusters = clusters.On(second)
	clusters.AwaitReady()
	settle(t, since)
	for _, apply := range sent.all() {
		t.Errorf("an apply to settled clusters: %s", apply)
	}
	clusters.Delete()
}

// settle waits until the core has been running for a moment and writes nothing.
func settle(t *testing.T, since time.Time) {
	t.Helper()
	plane.Until(t, time.Minute, func() string {
		from := time.Now().Add(-pause)
		if from.Before(since) {
			return "time"
		}
		if writes := plane.Writes(t, coreAgent, from); len(writes) > 0 {
			return fmt.Sprintf("last write: %+v", writes[len(writes)-1])
		}
		return ""
	})
}

// applies are the applies that the core sends.
type applies struct {
	mu   sync.Mutex
	sent []string
}

func (a *applies) transport(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if strings.Contains(request.UserAgent(), coreAgent) &&
			strings.HasPrefix(request.Header.Get("Content-Type"), string(types.ApplyYAMLPatchType)) {
			a.mu.Lock()
			a.sent = append(a.sent, request.URL.String())
			a.mu.Unlock()
		}
		return next.RoundTrip(request)
	})
}

func (a *applies) all() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.sent)
}

package stories

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// refusals are the rejected writes, each with a different text per try, and how often the status may be written in that
// time.
var refusals = map[string]struct {
	resource   string
	message    func(n int) string
	mostWrites int64
	condition  string
}{
	"the port of a connection, during the creation of machines": {
		resource: "machinedeployments",
		message: func(n int) string {
			return fmt.Sprintf("read tcp 10.0.0.1:%d->10.0.0.2:443: connection reset", 40000+n)
		},
		mostWrites: 1, condition: "RKECluster",
	},
	"any text, during the creation of machines": {
		resource:   "machinedeployments",
		message:    func(n int) string { return "cookie " + strings.Repeat("x", n%17) },
		mostWrites: 12, condition: "RKECluster",
	},
	"any text, during the creation of its identity": {
		resource:   "clusterregistrationtokens",
		message:    func(n int) string { return "cookie " + strings.Repeat("x", n%17) },
		mostWrites: 12, condition: "Created",
	},
}

// TestCluster_RefusalsWithChangingText: failed tries rarely change the status. The queue's back-off triggers
// the next try.
func TestCluster_RefusalsWithChangingText(t *testing.T) {
	for name, c := range refusals {
		t.Run(name, func(t *testing.T) {
			tell(t, func(s *story) {
				var tries, writes atomic.Int64
				s.api.Intercept(func(r memkube.Request) error {
					switch {
					case !strings.HasPrefix(r.Agent, agent):
					case r.Verb == "update" && r.Resource.Resource == "clusters" && r.Subresource == "status":
						writes.Add(1)
					case r.Verb == "create" && r.Resource.Resource == c.resource:
						n := tries.Add(1)
						if n > 1000 {
							return nil // far too many, but a failing test has to end
						}
						return apierrors.NewInternalError(errors.New("failed calling webhook: " + c.message(int(n))))
					}
					return nil
				})
				s.add(podSchema(), machineConfig("nc"), demo())
				pass(5 * time.Second)
				if n := tries.Load(); n == 0 || n > 1000 || conditions.IsTrue(s.read().Status.Conditions, c.condition) {
					t.Fatalf("%d tries, conditions %+v", tries.Load(), s.read().Status.Conditions)
				}
				tries.Store(0)
				writes.Store(0)
				pass(10 * time.Minute)
				if writes.Load() > c.mostWrites || tries.Load() > 60 {
					t.Errorf("in ten minutes %d writes of the status, want at most %d, and %d tries", writes.Load(),
						c.mostWrites, tries.Load())
				}
				s.api.Intercept(nil)
				pass(5 * time.Minute)
				s.settle()
				if made := s.read(); !conditions.IsTrue(made.Status.Conditions, c.condition) {
					t.Errorf("conditions %+v", made.Status.Conditions)
				}
			})
		})
	}
}

// TestCluster_RefusalsEndWhereverTheProcessIsKilled: Drover creates each object once, and in the end also those that
// were rejected.
func TestCluster_RefusalsEndWhereverTheProcessIsKilled(t *testing.T) {
	for name, c := range refusals {
		t.Run(name, func(t *testing.T) {
			retell(t, 2, drivers, func(s *story) {
				s.t.Helper()
				var tries atomic.Int64
				s.api.Intercept(func(r memkube.Request) error {
					if strings.HasPrefix(r.Agent, agent) && r.Verb == "create" && r.Resource.Resource == c.resource {
						return apierrors.NewInternalError(errors.New("failed calling webhook: " +
							c.message(int(tries.Add(1)))))
					}
					return nil
				})
				s.add(demo())
				pass(10 * time.Minute)
				if tries.Load() == 0 || conditions.IsTrue(s.read().Status.Conditions, c.condition) {
					s.t.Fatalf("%d tries, conditions %+v", tries.Load(), s.read().Status.Conditions)
				}
				s.api.Intercept(nil)
				pass(10 * time.Minute)
				s.settle()
				if diff := cmp.Diff(wantChildren, s.children()); diff != "" ||
					!conditions.IsTrue(s.read().Status.Conditions, c.condition) {
					s.t.Errorf("conditions %+v, children (-want +got):\n%s", s.read().Status.Conditions, diff)
				}
			})
		})
	}
}

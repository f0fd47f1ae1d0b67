package planner_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/drover-io/drover/pkg/conditions"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// A plan that the API server refuses is told once and tried again with growing delay; when it is allowed, the cluster goes on.
func TestStory_PlansAreRefusedForAWhile(t *testing.T) {
	for name, tc := range topologies {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStory(t, tc.version, tc.roles)
				tries, writes := 0, 0
				s.api.Intercept(func(r memkube.Request) error {
					switch {
					case !strings.HasPrefix(r.Agent, manager) || r.Verb != "update":
					case r.Resource.Resource == "rkecontrolplanes":
						writes++
					case r.Resource.Resource == "secrets":
						if tries++; tries > 1000 {
							return nil // far too many, and a test that fails has to end
						}
						return apierrors.NewForbidden(corev1.Resource("secrets"), r.Name, errors.New("a webhook says no"))
					}
					return nil
				})
				stop := s.startManager()
				defer stop()
				s.elapse(time.Minute)
				ready := conditions.Get(s.controlPlane().Status.Conditions, "Ready")
				if ready == nil || ready.Status != "False" || ready.Message != "Cannot carry out the decision: the API server answered Forbidden" {
					t.Errorf("Ready is %+v", ready)
				}
				if writes > 5 {
					t.Errorf("%d writes of the status in the first minute", writes)
				}
				writes = 0
				s.elapse(10 * time.Minute)
				if writes > 0 || tries > 100 {
					t.Errorf("%d writes of the status in ten minutes in which nothing changed, and %d tries", writes, tries)
				}
				s.api.Intercept(nil)
				s.untilReady()
			})
		})
	}
}

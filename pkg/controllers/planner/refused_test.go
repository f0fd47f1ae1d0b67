package planner_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// A plan that the API server refuses is reported once and retried with growing delay, and the cluster continues when it
// is allowed.
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
							return nil // far too many, but a failing test must end
						}
						return apierrors.NewForbidden(corev1.Resource("secrets"), r.Name,
							errors.New("a webhook refuses"))
					}
					return nil
				})
				stop := s.startManager()
				defer stop()
				s.elapse(time.Minute)
				ready := conditions.Get(s.controlPlane().Status.Conditions, "Ready")
				if ready == nil || ready.Status != "False" ||
					ready.Message != "Cannot carry out the decision: the API server answered Forbidden" {
					t.Errorf("Ready is %+v", ready)
				}
				if writes > 5 {
					t.Errorf("%d writes of the status in the first minute", writes)
				}
				writes = 0
				s.elapse(10 * time.Minute)
				if writes > 0 || tries > 100 {
					t.Errorf("%d writes of the status and %d attempts in ten minutes without changes", writes, tries)
				}
				s.api.Intercept(nil)
				s.untilReady()
			})
		})
	}
}

// W11: a plan Secret that cannot be written delays only its own machine.
func TestStory_OneMachineThatRefusesDoesNotStopTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		roles := map[string]string{"a": "etcd,control-plane", "w1": "worker", "w2": "worker", "w3": "worker"}
		s := newStory(t, "v1.36.2+rke2r1", roles)
		s.api.Intercept(func(r memkube.Request) error {
			if strings.HasPrefix(r.Agent, manager) && r.Verb == "update" && r.Name == naming.PlanSecret("w1-boot") {
				return apierrors.NewForbidden(corev1.Resource("secrets"), r.Name, errors.New("a webhook refuses"))
			}
			return nil
		})
		stop := s.startManager()
		defer stop()
		for range 60 {
			s.elapse(5 * time.Second)
			s.agentsPass()
		}
		for name := range roles {
			machine, err := s.world.CAPI.Machine().Get(namespace, name, metav1.GetOptions{})
			must(t, err)
			if found := machine.Status.NodeRef.Name != ""; found != (name != "w1") {
				t.Errorf("%s has become a node: %v", name, found)
			}
		}
		s.api.Intercept(nil)
		s.untilReady()
	})
}

// restartAsked requests a restart of all machines, one by one.
func (s *story) restartAsked() {
	s.Helper()
	cp := s.controlPlane()
	cp.Spec.ProvisionGeneration = 7
	_, err := s.world.RKE.RKEControlPlane().Update(cp)
	must(s.T, err)
}

// A change whose plans are refused for a while, by one machine or by all, reaches every machine once allowed, wherever
// the manager is killed.
func TestStory_RefusedChangesWhereverTheManagerIsKilled(t *testing.T) {
	for name, refuses := range map[string]func(secret string) bool{
		"all plans are refused": func(string) bool { return true },
		"one machine refuses":   func(secret string) bool { return secret == naming.PlanSecret("w1-boot") },
		"the init node refuses": func(secret string) bool { return secret == naming.PlanSecret("a-boot") },
	} {
		t.Run(name, func(t *testing.T) {
			retell(t, "v1.36.2+rke2r1", map[string]string{"a": "etcd,control-plane", "w1": "worker", "w2": "worker"}, 2,
				func(s *story) {
					s.restarted() // records the current state
					s.api.Intercept(func(r memkube.Request) error {
						if strings.HasPrefix(r.Agent, manager) && r.Verb == "update" &&
							r.Resource.Resource == "secrets" && refuses(r.Name) {
							return apierrors.NewForbidden(corev1.Resource("secrets"), r.Name,
								errors.New("a webhook refuses"))
						}
						return nil
					})
					s.restartAsked()
					for range 30 {
						s.elapse(10 * time.Second)
						s.agentsPass()
					}
					for _, machine := range s.restarted() {
						if refuses(naming.PlanSecret(machine + "-boot")) {
							s.Errorf("%s has a plan that was refused", machine)
						}
					}
					s.api.Intercept(nil)
					s.until("all machines have the change", func() bool {
						return len(s.restarted()) == len(s.roles) && len(s.outOfSync()) == 0 && s.ready()
					})
				})
		})
	}
}

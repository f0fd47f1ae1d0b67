package planner_test

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/naming"
	"github.com/drover-io/drover/pkg/nodeplan"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
)

// drainsPass is a drainer that does what it is asked for at once.
func (s *story) drainsPass() (drained []string) {
	s.Helper()
	for _, name := range slices.Sorted(maps.Keys(s.roles)) {
		secret, err := s.world.Core.Secret().Get(namespace, naming.PlanSecret(name+"-boot"), metav1.GetOptions{})
		must(s.T, err)
		asked := secret.Annotations[rkev1.DrainAnnotation]
		switch {
		case secret.Annotations[rkev1.UncordonAnnotation] != "":
			for _, key := range []string{rkev1.DrainAnnotation, rkev1.DrainDoneAnnotation, rkev1.UncordonAnnotation} {
				delete(secret.Annotations, key)
			}
		case asked != "" && secret.Annotations[rkev1.DrainDoneAnnotation] != asked:
			secret.Annotations[rkev1.DrainDoneAnnotation] = asked
			drained = append(drained, name)
		default:
			continue
		}
		_, err = s.world.Core.Secret().Update(secret)
		must(s.T, err)
	}
	return drained
}

// outOfSync are the machines that have a plan they have not applied, or that are drained.
func (s *story) outOfSync() (names []string) {
	s.Helper()
	for _, name := range slices.Sorted(maps.Keys(s.roles)) {
		secret, err := s.world.Core.Secret().Get(namespace, naming.PlanSecret(name+"-boot"), metav1.GetOptions{})
		must(s.T, err)
		if nodeplan.Checksum(secret.Data[nodeplan.KeyPlan]) != string(secret.Data[nodeplan.KeyAppliedChecksum]) || secret.Annotations[rkev1.DrainAnnotation] != "" {
			names = append(names, name)
		}
	}
	return names
}

// rollOut lets a restart of all machines, with drains, go through the cluster, and returns who was drained.
func (s *story) rollOut() (drained []string) {
	s.Helper()
	begin := time.Now()
	for {
		synctest.Wait()
		if busy := s.outOfSync(); len(busy) > 1 {
			s.Fatalf("%v are changed at the same time", busy)
		}
		if cp := s.controlPlane(); s.ready() && cp.Status.AppliedSpec != nil && cp.Status.AppliedSpec.ProvisionGeneration == 7 {
			return drained
		}
		if time.Since(begin) > 15*time.Minute {
			s.Fatalf("the change never gets through: %+v", s.controlPlane().Status.Conditions)
		}
		drained = append(drained, s.drainsPass()...)
		s.elapse(5 * time.Second)
		s.agentsPass()
	}
}

// A change goes through the machines one by one, wherever the manager is killed, and each is drained exactly once.
func TestStory_AChangeRollsThroughWhereverTheManagerIsKilled(t *testing.T) {
	want := []string{"a", "b", "c", "w1", "w2"}
	run := func(n int) (writes int) {
		synctest.Test(t, func(t *testing.T) {
			s := newStory(t, "v1.36.2+rke2r1", topologies["three RKE2 servers, 2 worker"].roles)
			stop := s.startManager()
			s.untilReady()
			s.agentsPass()
			s.elapse(time.Minute)
			s.api.ResetLog()
			cp := s.controlPlane()
			cp.Spec.ProvisionGeneration = 7
			cp.Spec.UpgradeStrategy.ControlPlaneDrainOptions.Enabled, cp.Spec.UpgradeStrategy.WorkerDrainOptions.Enabled = true, true
			if n > 0 {
				s.api.CutAfter(manager, n, func() {
					go func() { // the write that is cut off belongs to the manager that is stopped
						stop()
						s.api.Mend(manager)
						stop = s.startManager()
					}()
				})
			}
			_, err := s.world.RKE.RKEControlPlane().Update(cp)
			must(t, err)
			if drained := s.rollOut(); !slices.Equal(drained, want) {
				t.Errorf("killed after write %d: drained were %v, want %v", n, drained, want)
			}
			writes = len(s.api.Writes(manager))
			s.elapse(time.Minute)
			s.api.ResetLog()
			s.elapse(10 * time.Minute)
			if late := s.api.Writes(manager); len(late) > 0 {
				t.Errorf("killed after write %d: %d writes although nothing happens", n, len(late))
			}
			stop()
		})
		return writes
	}
	for _, n := range crashpoints.Of(run(0), 12) {
		run(n)
	}
}

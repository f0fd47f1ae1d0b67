package planner_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/disruption"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
	"github.com/drover-io/drover/pkg/testkit/disruptions"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// drainsPass acts as a drain controller that finishes every request at once.
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

// outOfSync returns the machines that are drained or have not applied their plan.
func (s *story) outOfSync() (names []string) {
	s.Helper()
	for _, name := range slices.Sorted(maps.Keys(s.roles)) {
		secret, err := s.world.Core.Secret().Get(namespace, naming.PlanSecret(name+"-boot"), metav1.GetOptions{})
		must(s.T, err)
		if nodeplan.Checksum(secret.Data[nodeplan.KeyPlan]) != string(secret.Data[nodeplan.KeyAppliedChecksum]) ||
			secret.Annotations[rkev1.DrainAnnotation] != "" {
			names = append(names, name)
		}
	}
	return names
}

// rollOut runs a restart of all machines with drains, and returns the drained machines.
func (s *story) rollOut() (drained []string) {
	s.Helper()
	begin := time.Now()
	for {
		synctest.Wait()
		if busy := s.outOfSync(); len(busy) > 1 {
			s.Fatalf("%v change at the same time", busy)
		}
		if cp := s.controlPlane(); s.ready() && cp.Status.AppliedSpec != nil &&
			cp.Status.AppliedSpec.ProvisionGeneration == 7 {
			return drained
		}
		if time.Since(begin) > 15*time.Minute {
			s.Fatalf("the change is never complete: %+v", s.controlPlane().Status.Conditions)
		}
		drained = append(drained, s.drainsPass()...)
		s.elapse(5 * time.Second)
		s.agentsPass()
	}
}

// A change reaches the machines one by one, wherever the manager is killed, and each is drained exactly once.
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
			cp.Spec.UpgradeStrategy.ControlPlaneDrainOptions.Enabled = true
			cp.Spec.UpgradeStrategy.WorkerDrainOptions.Enabled = true
			if n > 0 {
				s.api.CutAfter(manager, n, func() {
					go func() { // the interrupted write belongs to the manager that is stopped
						stop()
						s.api.Mend(manager)
						stop = s.startManager()
					}()
				})
			}
			_, err := s.world.RKE.RKEControlPlane().Update(cp)
			must(t, err)
			if drained := s.rollOut(); !slices.Equal(drained, want) {
				t.Errorf("killed after write %d: drained %v, want %v", n, drained, want)
			}
			writes = s.api.Written(manager)
			s.elapse(time.Minute)
			s.api.ResetLog()
			s.elapse(10 * time.Minute)
			if late := s.api.Writes(manager); len(late) > 0 {
				t.Errorf("killed after write %d: %d writes without a change", n, len(late))
			}
			stop()
			// Each machine is drained once and restarted once. A killed manager may have missed counting its last
			// action.
			counts, err := disruptions.Gathered(s.metrics)
			must(t, err)
			if got, all := counts[disruption.EditReinstall], 2*len(want); got > all || got < all-min(n, 1) {
				t.Errorf("killed after write %d: %d disruptions are counted, want %d", n, got, all)
			}
		})
		return writes
	}
	for _, n := range crashpoints.Of(t, run(0), 12) {
		run(n)
	}
}

// initNodes returns the Machines, and the plan Secrets, with the mark of the init node.
func (s *story) initNodes() (machines, secrets []string) {
	s.Helper()
	for _, name := range slices.Sorted(maps.Keys(s.roles)) {
		machine, err := s.world.CAPI.Machine().Get(namespace, name, metav1.GetOptions{})
		must(s.T, err)
		if machine.Labels[rkev1.InitNodeLabel] != "" {
			machines = append(machines, name)
		}
		secret, err := s.world.Core.Secret().Get(namespace, naming.PlanSecret(name+"-boot"), metav1.GetOptions{})
		must(s.T, err)
		if secret.Labels[rkev1.InitNodeLabel] != "" {
			secrets = append(secrets, name)
		}
	}
	return machines, secrets
}

// Another machine becomes the init node only after the old one's mark is removed.
func TestStory_ThereAreNeverTwoInitNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, "v1.36.2+rke2r1", topologies["three RKE2 servers, 2 worker"].roles)
		defer s.startManager()()
		s.untilReady()
		s.agentsPass()
		s.elapse(time.Minute)
		s.api.Intercept(func(r memkube.Request) error {
			if strings.HasPrefix(r.Agent, manager) && r.Verb == "patch" && r.Resource.Resource == "machines" &&
				r.Name == "a" {
				return apierrors.NewForbidden(corev1.Resource("machines"), r.Name, errors.New("a webhook refuses"))
			}
			return nil
		})
		machine, err := s.world.CAPI.Machine().Get(namespace, "a", metav1.GetOptions{})
		must(t, err)
		machine.Status.Phase = "Failed"
		_, err = s.world.CAPI.Machine().UpdateStatus(machine)
		must(t, err)
		s.elapse(10 * time.Minute)
		if machines, _ := s.initNodes(); !slices.Equal(machines, []string{"a"}) {
			t.Fatalf("init nodes are %v", machines)
		}
		s.api.Intercept(nil)
		for range 60 {
			s.elapse(10 * time.Second)
			s.agentsPass()
		}
		machines, secrets := s.initNodes()
		if !slices.Equal(machines, []string{"b"}) || !slices.Equal(secrets, []string{"b"}) || len(s.outOfSync()) > 0 {
			t.Errorf("init nodes are %v, of the plan secrets %v; out of sync are %v", machines, secrets, s.outOfSync())
		}
	})
}

// A pool that is paused in the Cluster and a machine that is excluded by its annotation are both respected at once.
func TestStory_PausedPoolsAndMachinesLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, "v1.36.2+k3s1", map[string]string{"a": "etcd,control-plane", "w1": "worker", "w2": "worker",
			"w3": "worker"})
		s.leaveOut()
		defer s.startManager()()
		s.untilReady()
		s.restarted() // records the current state
		s.pause(true)
		cp := s.controlPlane()
		cp.Spec.ProvisionGeneration = 7
		_, err := s.world.RKE.RKEControlPlane().Update(cp)
		must(t, err)
		for range 30 {
			s.elapse(10 * time.Second)
			s.agentsPass()
		}
		if got := s.restarted(); !slices.Equal(got, []string{"a", "w3"}) {
			t.Errorf("changed: %v", got)
		}
		s.pause(false)
		for range 6 {
			s.elapse(10 * time.Second)
			s.agentsPass()
		}
		if got := s.restarted(); !slices.Equal(got, []string{"a", "w1", "w3"}) {
			t.Errorf("changed: %v", got)
		}
	})
}

// leaveOut puts w1 into the pool that may be paused, and excludes w2 from all changes.
func (s *story) leaveOut() {
	s.Helper()
	for name, change := range map[string]func(*clusterv1.Machine){
		"w1": func(m *clusterv1.Machine) { m.Labels[rkev1.MachinePoolNameLabel] = "paused" },
		"w2": func(m *clusterv1.Machine) { m.Annotations = map[string]string{rkev1.RollOutSkipAnnotation: "true"} },
	} {
		machine, err := s.world.CAPI.Machine().Get(namespace, name, metav1.GetOptions{})
		must(s.T, err)
		change(machine)
		_, err = s.world.CAPI.Machine().Update(machine)
		must(s.T, err)
	}
}

func (s *story) pause(paused bool) {
	s.Helper()
	found, err := s.world.Provisioning.Cluster().Get(namespace, cluster, metav1.GetOptions{})
	must(s.T, err)
	found.Spec.RKEConfig = &provv1.RKEConfig{
		MachinePools: []provv1.RKEMachinePool{{Name: "paused", Paused: paused, WorkerRole: true,
			NodeConfig: &corev1.ObjectReference{Kind: "x", Name: "x"}}}}
	_, err = s.world.Provisioning.Cluster().Update(found)
	must(s.T, err)
}

// restarted returns the machines whose plan differs from the first one.
func (s *story) restarted() (names []string) {
	s.Helper()
	for _, name := range slices.Sorted(maps.Keys(s.roles)) {
		secret, err := s.world.Core.Secret().Get(namespace, naming.PlanSecret(name+"-boot"), metav1.GetOptions{})
		must(s.T, err)
		delivered, err := nodeplan.Decode(secret.Data[nodeplan.KeyPlan])
		must(s.T, err)
		stamp := render.StampsOf(delivered).Restart
		if s.stamps == nil {
			s.stamps = map[string]string{}
		}
		if _, known := s.stamps[name]; !known {
			s.stamps[name] = stamp
		}
		if s.stamps[name] != stamp {
			names = append(names, name)
		}
	}
	return names
}

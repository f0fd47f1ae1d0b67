package planner_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
)

// retell runs part once without a kill, and then again for several points at which the manager is killed and replaced.
// part starts when the cluster is ready. At the end, the API must hold the same objects in all runs. before runs before
// the first manager.
func retell(t *testing.T, version string, roles map[string]string, most int, part func(s *story),
	before ...func(s *story)) {
	t.Helper()
	crashpoints.SkipRaced(t)
	var want map[string]any
	crashpoints.Each(t, most, func(t *testing.T, n int) (writes int) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			s := newStory(t, version, roles)
			for _, prepare := range before {
				prepare(s)
			}
			s.stop = s.startManager()
			defer func() { s.stop() }()
			s.untilReady()
			s.agentsPass()
			s.elapse(time.Minute)
			s.api.ResetLog()
			if n > 0 {
				s.api.CutAfter(manager, n, func() {
					go func() { // the interrupted write belongs to the manager that is stopped
						s.stop()
						s.api.Mend(manager)
						s.stop = s.startManager()
					}()
				})
			}
			part(s)
			writes = s.api.Written(manager)
			for range 3 {
				s.agentsPass()
				s.elapse(time.Minute)
			}
			got := s.objects()
			if want == nil {
				want = got
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("killed after write %d, the outcome differs (-never killed +killed):\n%s", n, diff)
			}
			s.api.ResetLog()
			s.elapse(10 * time.Minute)
			if late := s.api.Writes(manager); len(late) > 0 {
				t.Errorf("killed after write %d: %d writes without a change", n, len(late))
			}
		})
		return writes
	})
}

// A restore restores etcd on the machine that holds the snapshot, and on no other, wherever the manager is killed.
func TestStory_ARestoreIsKilledAfterAnyWrite(t *testing.T) {
	retell(t, "v1.36.2+k3s1", threeServers, 10, func(s *story) {
		s.addSnapshot("snap", "b", nil)
		s.askRestore("snap")
		s.until("the restore is over", func() bool {
			if machine, _ := s.restoring(); machine != "" && machine != "b" {
				s.Fatalf("etcd is restored on %s", machine)
			}
			return s.phase() == rkev1.ETCDSnapshotPhaseFinished && s.ready()
		})
		if machines, secrets := s.initNodes(); !slices.Equal(machines, []string{"b"}) ||
			!slices.Equal(secrets, []string{"b"}) {
			s.Errorf("init nodes are %v, of the plan secrets %v", machines, secrets)
		}
		cp := s.controlPlane()
		i := slices.IndexFunc(cp.Status.Operations, func(r rkev1.OperationRecord) bool {
			return r.Name == "etcd-restore"
		})
		if i < 0 || cp.Status.Operations[i].Attempt != 1 || cp.Status.ConfigGeneration != 1 {
			s.Errorf("operations are %+v, the generation of the configuration is %d", cp.Status.Operations,
				cp.Status.ConfigGeneration)
		}
	})
}

// Certificates are rotated once, and the rotation's pause ends, wherever the manager is killed.
func TestStory_ARotationIsKilledAfterAnyWrite(t *testing.T) {
	retell(t, "v1.36.2+rke2r1", map[string]string{"a": "etcd,control-plane", "b": "etcd,control-plane",
		"c": "etcd,control-plane", "w": "worker"}, 8, func(s *story) {
		cp := s.controlPlane()
		cp.Spec.RotateCertificates = &rkev1.RotateCertificates{Generation: 1}
		_, err := s.world.RKE.RKEControlPlane().Update(cp)
		must(s.T, err)
		s.until("the rotation is over", func() bool {
			busy := slices.DeleteFunc(s.outOfSync(), func(name string) bool {
				return render.OperationOf(s.planOf(name)) != render.OperationCertificates
			})
			if len(busy) > 1 {
				s.Fatalf("%v rotate at the same time", busy)
			}
			return s.controlPlane().Status.CertificateRotationGeneration == 1 && s.ready()
		})
		capi, err := s.world.CAPI.Cluster().Get(namespace, cluster, metav1.GetOptions{})
		must(s.T, err)
		if _, owned := capi.Annotations[rkev1.PausedByOperationAnnotation]; owned || capi.Spec.Paused != nil &&
			*capi.Spec.Paused {
			s.Errorf("the cluster stays paused: %v", capi.Annotations)
		}
	})
}

// Another machine replaces the init node, and there are never two, wherever the manager is killed.
func TestStory_TheInitNodeIsReplacedWhereverTheManagerIsKilled(t *testing.T) {
	retell(t, "v1.36.2+rke2r1", topologies["three RKE2 servers, 2 worker"].roles, 8, func(s *story) {
		machine, err := s.world.CAPI.Machine().Get(namespace, "a", metav1.GetOptions{})
		must(s.T, err)
		machine.Status.Phase = "Failed"
		_, err = s.world.CAPI.Machine().UpdateStatus(machine)
		must(s.T, err)
		for range 60 {
			s.elapse(10 * time.Second)
			if machines, secrets := s.initNodes(); len(machines) > 1 || len(secrets) > 1 {
				s.Fatalf("init nodes are %v, of the plan secrets %v", machines, secrets)
			}
			s.agentsPass()
		}
		if machines, secrets := s.initNodes(); !slices.Equal(machines, []string{"b"}) ||
			!slices.Equal(secrets, []string{"b"}) || len(s.outOfSync()) > 0 {
			s.Errorf("init nodes are %v, of the plan secrets %v; out of sync are %v", machines, secrets, s.outOfSync())
		}
	})
}

// A restore from the snapshot's storage finishes, wherever the manager is killed.
func TestStory_ARestoreFromStorageIsKilledAfterAnyWrite(t *testing.T) {
	retell(t, "v1.36.2+k3s1", threeServers, 3, func(s *story) {
		s.addCredential(namespace, "cc", "AK")
		s.addSnapshot("snap", "", inS3(&rkev1.ETCDSnapshotS3{Bucket: "of-the-snapshot", CloudCredentialName: "cc"}))
		s.askRestore("snap")
		restored := map[string]bool{}
		s.until("the restore is over", func() bool {
			if machine, _ := s.restoring(); machine != "" { // a machine may finish before this check
				restored[machine] = true
			}
			return s.phase() == rkev1.ETCDSnapshotPhaseFinished && s.ready()
		})
		if cp := s.controlPlane(); len(restored) > 1 || cp.Status.ConfigGeneration != 1 {
			s.Errorf("etcd was restored on %v, the generation of the configuration is %d", restored,
				cp.Status.ConfigGeneration)
		}
	})
}

// A restore that waits for its snapshot with stopped machines continues when the snapshot returns, wherever the manager
// is killed.
func TestStory_ARestoreThatWaitsForItsSnapshotIsKilledAfterAnyWrite(t *testing.T) {
	retell(t, "v1.36.2+k3s1", threeServers, 3, func(s *story) {
		s.addSnapshot("snap", "b", nil)
		s.askRestore("snap")
		// The phase ends as soon as the agents have polled.
		for begin := time.Now(); s.phase() != rkev1.ETCDSnapshotPhaseShutdown; {
			if s.elapse(time.Second); time.Since(begin) > 5*time.Minute {
				s.Fatalf("machines are never stopped, the phase is %s", s.phase())
			}
		}
		must(s.T, s.world.RKE.ETCDSnapshot().Delete(namespace, "snap", nil))
		s.until("the restore waits", func() bool { return s.phase() == rkev1.ETCDSnapshotPhaseRestore })
		s.elapse(2 * time.Minute)
		if machine, _ := s.restoring(); machine != "" {
			s.Fatalf("%s restores from nothing", machine)
		}
		s.addSnapshot("snap", "b", nil)
		s.until("the restore is over", func() bool { return s.phase() == rkev1.ETCDSnapshotPhaseFinished && s.ready() })
	})
}

// A restore that cannot work is refused once, wherever the manager is killed.
func TestStory_ARefusedRestoreIsKilledAfterAnyWrite(t *testing.T) {
	for name, tc := range refusedRestores {
		t.Run(name, func(t *testing.T) {
			retell(t, "v1.36.2+k3s1", threeServers, 2, func(s *story) {
				tc.given(s)
				s.elapse(time.Minute)
				s.askRestore("snap")
				s.elapse(5 * time.Minute)
				c := conditions.Get(s.controlPlane().Status.Conditions, "ETCDSnapshotRestored")
				if c == nil || c.Status != "False" || s.phase() != rkev1.ETCDSnapshotPhaseFailed {
					s.Errorf("phase is %s, condition %+v", s.phase(), c)
				}
			})
		})
	}
}

// A command moves each machine once, wherever the manager is killed.
func TestStory_ARollIsKilledAfterAnyWrite(t *testing.T) {
	retell(t, "v1.36.2+rke2r1", topologies["three RKE2 servers, 2 worker"].roles, 3, func(s *story) {
		s.stop()
		s.versions = nextVersions()
		s.stop = s.startManager()
		before := s.plans()
		asked, err := s.world.Provisioning.Cluster().Get(namespace, cluster, metav1.GetOptions{})
		must(s.T, err)
		asked.Annotations[rkev1.RollAnnotation] = "next"
		_, err = s.world.Provisioning.Cluster().Update(asked)
		must(s.T, err)
		s.until("all machines have moved", func() bool {
			if busy := s.outOfSync(); len(busy) > 1 {
				s.Fatalf("%v change at the same time", busy)
			}
			for name, after := range s.plans() {
				machine, err := s.world.CAPI.Machine().Get(namespace, name, metav1.GetOptions{})
				must(s.T, err)
				if after == before[name] || machine.Annotations[rkev1.RenderVersionAnnotation] != "next" {
					return false
				}
			}
			return s.ready() && len(s.outOfSync()) == 0
		})
	})
}

// A change skips a paused pool and an excluded machine, and reaches the pool after it resumes, wherever the manager is
// killed.
func TestStory_PausedPoolsWhereverTheManagerIsKilled(t *testing.T) {
	retell(t, "v1.36.2+k3s1", map[string]string{"a": "etcd,control-plane", "w1": "worker", "w2": "worker",
		"w3": "worker"}, 3, func(s *story) {
		s.restarted() // records the current state
		s.pause(true)
		s.elapse(time.Minute)
		cp := s.controlPlane()
		cp.Spec.ProvisionGeneration = 7
		_, err := s.world.RKE.RKEControlPlane().Update(cp)
		must(s.T, err)
		changed := func(want ...string) {
			s.Helper()
			for range 40 {
				s.elapse(10 * time.Second)
				s.agentsPass()
			}
			if got := s.restarted(); !slices.Equal(got, want) {
				s.Errorf("changed: %v, want %v", got, want)
			}
		}
		changed("a", "w3")
		s.pause(false)
		changed("a", "w1", "w3")
	}, func(s *story) { s.leaveOut() })
}

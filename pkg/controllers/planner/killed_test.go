package planner_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/planner/render"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
)

// retell tells a part of a story once without a kill and then again for several points, with the manager killed after that write of the part and
// another one started. part comes when the cluster is in order; at the end the API must hold the same.
func retell(t *testing.T, version string, roles map[string]string, most int, part func(s *story)) {
	t.Helper()
	var want map[string]any
	run := func(n int) (writes int) {
		synctest.Test(t, func(t *testing.T) {
			s := newStory(t, version, roles)
			stop := s.startManager()
			defer func() { stop() }()
			s.untilReady()
			s.agentsPass()
			s.elapse(time.Minute)
			s.api.ResetLog()
			if n > 0 {
				s.api.CutAfter(manager, n, func() {
					go func() { // the write that is cut off belongs to the manager that is stopped
						stop()
						s.api.Mend(manager)
						stop = s.startManager()
					}()
				})
			}
			part(s)
			writes = len(s.api.Writes(manager))
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
				t.Errorf("killed after write %d: %d writes although nothing happens", n, len(late))
			}
		})
		return writes
	}
	for _, n := range crashpoints.Of(run(0), most) {
		run(n)
	}
}

// A restore puts etcd back on the machine that holds the snapshot, and on no other, wherever the manager is killed.
func TestStory_ARestoreIsKilledAfterAnyWrite(t *testing.T) {
	retell(t, "v1.36.2+k3s1", threeServers, 16, func(s *story) {
		s.addSnapshot("snap", "b", nil)
		s.askRestore("snap")
		s.until("the restore is over", func() bool {
			if machine, _ := s.restoring(); machine != "" && machine != "b" {
				s.Fatalf("etcd is restored on %s", machine)
			}
			return s.phase() == rkev1.ETCDSnapshotPhaseFinished && s.ready()
		})
		if machines, secrets := s.initNodes(); !slices.Equal(machines, []string{"b"}) || !slices.Equal(secrets, []string{"b"}) {
			s.Errorf("init nodes are %v, of the plan secrets %v", machines, secrets)
		}
		cp := s.controlPlane()
		i := slices.IndexFunc(cp.Status.Operations, func(r rkev1.OperationRecord) bool { return r.Name == "etcd-restore" })
		if i < 0 || cp.Status.Operations[i].Attempt != 1 || cp.Status.ConfigGeneration != 1 {
			s.Errorf("operations are %+v, the generation of the configuration is %d", cp.Status.Operations, cp.Status.ConfigGeneration)
		}
	})
}

// Certificates are rotated once, and the pause of the rotation goes, wherever the manager is killed.
func TestStory_ARotationIsKilledAfterAnyWrite(t *testing.T) {
	retell(t, "v1.36.2+rke2r1", map[string]string{"a": "etcd,control-plane", "b": "etcd,control-plane", "c": "etcd,control-plane", "w": "worker"}, 12, func(s *story) {
		cp := s.controlPlane()
		cp.Spec.RotateCertificates = &rkev1.RotateCertificates{Generation: 1}
		_, err := s.world.RKE.RKEControlPlane().Update(cp)
		must(s.T, err)
		s.until("the rotation is over", func() bool {
			busy := slices.DeleteFunc(s.outOfSync(), func(name string) bool { return render.OperationOf(s.planOf(name)) != render.OperationCertificates })
			if len(busy) > 1 {
				s.Fatalf("%v rotate at the same time", busy)
			}
			return s.controlPlane().Status.CertificateRotationGeneration == 1 && s.ready()
		})
		capi, err := s.world.CAPI.Cluster().Get(namespace, cluster, metav1.GetOptions{})
		must(s.T, err)
		if _, owned := capi.Annotations[rkev1.PausedByOperationAnnotation]; owned || capi.Spec.Paused != nil && *capi.Spec.Paused {
			s.Errorf("the cluster stays paused: %v", capi.Annotations)
		}
	})
}

// Another machine takes the place of the init node, and there are never two, wherever the manager is killed.
func TestStory_TheInitNodeIsReplacedWhereverTheManagerIsKilled(t *testing.T) {
	retell(t, "v1.36.2+rke2r1", topologies["three RKE2 servers, 2 worker"].roles, 12, func(s *story) {
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
		if machines, secrets := s.initNodes(); !slices.Equal(machines, []string{"b"}) || !slices.Equal(secrets, []string{"b"}) || len(s.outOfSync()) > 0 {
			s.Errorf("init nodes are %v, of the plan secrets %v; out of sync are %v", machines, secrets, s.outOfSync())
		}
	})
}

package planner_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

var threeServers = map[string]string{
	"a": "etcd,control-plane,worker", "b": "etcd,control-plane,worker", "c": "etcd,control-plane,worker",
}

// newRestoreStory is a ready cluster with three servers.
func newRestoreStory(t *testing.T) (s *story, stop func()) {
	t.Helper()
	s = newStory(t, "v1.36.2+k3s1", threeServers)
	stop = s.startManager()
	s.untilReady()
	s.agentsPass()
	s.elapse(time.Minute)
	s.api.ResetLog()
	return s, stop
}

// addSnapshot makes an ETCDSnapshot as the snapshots controller does. One on a machine is owned by the machine, one in
// S3 by the cluster.
func (s *story) addSnapshot(name, machine string, edit func(*rkev1.ETCDSnapshot)) {
	s.Helper()
	snapshot := &rkev1.ETCDSnapshot{
		ObjectMeta:   metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:         rkev1.ETCDSnapshotSpec{ClusterName: cluster},
		SnapshotFile: rkev1.ETCDSnapshotFile{Name: "file-of-" + name, Status: "successful"},
	}
	if machine != "" {
		owner, err := s.world.CAPI.Machine().Get(namespace, machine, metav1.GetOptions{})
		must(s.T, err)
		snapshot.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(),
			Kind: "Machine", Name: machine, UID: owner.UID}}
	}
	if edit != nil {
		edit(snapshot)
	}
	_, err := s.world.RKE.ETCDSnapshot().Create(snapshot)
	must(s.T, err)
}

func (s *story) askRestore(name string) {
	s.Helper()
	synctest.Wait() // the snapshots are in the caches
	cp := s.controlPlane()
	cp.Spec.ETCDSnapshotRestore = &rkev1.ETCDSnapshotRestore{Name: name, Generation: 1}
	_, err := s.world.RKE.RKEControlPlane().Update(cp)
	must(s.T, err)
}

func (s *story) planOf(machine string) plan.NodePlan {
	s.Helper()
	secret, err := s.world.Core.Secret().Get(namespace, naming.PlanSecret(machine+"-boot"), metav1.GetOptions{})
	must(s.T, err)
	current, err := nodeplan.Decode(secret.Data[nodeplan.KeyPlan])
	must(s.T, err)
	return current
}

// restoring returns the machine with the plan of a restore, and the arguments and environment of its restore
// instruction.
func (s *story) restoring() (machine, command string) {
	s.Helper()
	for _, name := range slices.Sorted(maps.Keys(s.roles)) {
		current := s.planOf(name)
		if render.OperationOf(current) != render.OperationRestore {
			continue
		}
		if machine != "" {
			s.Fatalf("%s and %s restore at the same time", machine, name)
		}
		machine = name
		for _, i := range current.Instructions {
			if slices.ContainsFunc(i.Args, func(arg string) bool {
				return strings.HasPrefix(arg, "--cluster-reset-restore-path=")
			}) {
				command = strings.Join(slices.Concat(i.Env, i.Args), " ")
			}
		}
	}
	return machine, command
}

// until lets time pass, with a pass of the agents every five seconds.
func (s *story) until(what string, done func() bool) {
	s.Helper()
	for begin := time.Now(); time.Since(begin) < 15*time.Minute; {
		synctest.Wait()
		if done() {
			return
		}
		s.elapse(5 * time.Second)
		s.agentsPass()
	}
	s.Fatalf("waited in vain: %s: %+v", what, s.controlPlane().Status.Conditions)
}

func (s *story) phase() rkev1.ETCDSnapshotPhase {
	s.Helper()
	return s.controlPlane().Status.ETCDSnapshotRestorePhase
}

func inS3(s3 *rkev1.ETCDSnapshotS3) func(*rkev1.ETCDSnapshot) {
	return func(snapshot *rkev1.ETCDSnapshot) { snapshot.SnapshotFile.S3 = s3 }
}

func (s *story) addCredential(in, name, key string) *corev1.Secret {
	s.Helper()
	secret, err := s.world.Core.Secret().Create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: name},
		Data: map[string][]byte{"s3credentialConfig-accessKey": []byte(key),
			"s3credentialConfig-secretKey": []byte("secret-of-" + key)},
	})
	must(s.T, err)
	return secret
}

// A restore runs on the machine that holds the snapshot, and afterwards snapshots cause no requests.
func TestStory_RestoreOnTheMachineThatHoldsTheSnapshot(t *testing.T) {
	for _, holder := range slices.Sorted(maps.Keys(threeServers)) {
		t.Run(holder, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, stop := newRestoreStory(t)
				defer stop()
				for name := range threeServers {
					s.addSnapshot("snap-"+name, name, nil)
				}
				s.askRestore("snap-" + holder)
				s.until("a machine restores", func() bool { m, _ := s.restoring(); return m != "" })
				machine, command := s.restoring()
				if machine != holder ||
					!strings.Contains(command, "--cluster-reset-restore-path=db/snapshots/file-of-snap-"+holder+
						" --etcd-s3=false") {
					t.Errorf("%s runs %q", machine, command)
				}
				s.until("the restore is over", func() bool {
					return s.phase() == rkev1.ETCDSnapshotPhaseFinished && s.ready()
				})
				s.agentsPass()
				s.elapse(time.Minute)
				s.api.ResetLog()
				s.snapshotsComeAndGo("snap-" + holder)
				requests := s.api.Count(manager)
				// Ignore renewed watches.
				maps.DeleteFunc(requests, func(request string, _ int) bool {
					return strings.HasPrefix(request, "watch ")
				})
				if len(requests) > 0 {
					t.Errorf("a settled cluster causes the writes %v", requests)
				}
			})
		})
	}
}

// snapshotsComeAndGo simulates an hour in which the distribution takes snapshots and a user labels one.
func (s *story) snapshotsComeAndGo(labelled string) {
	s.Helper()
	for _, name := range []string{"x", "y", "z"} {
		s.addSnapshot(name, "a", nil)
		s.elapse(time.Minute)
	}
	must(s.T, s.world.RKE.ETCDSnapshot().Delete(namespace, "x", nil))
	snapshot, err := s.world.RKE.ETCDSnapshot().Get(namespace, labelled, metav1.GetOptions{})
	must(s.T, err)
	snapshot.Labels = map[string]string{"keep": "this"}
	_, err = s.world.RKE.ETCDSnapshot().Update(snapshot)
	must(s.T, err)
	s.elapse(time.Minute)
}

// A restore uses the snapshot's own storage, even if the cluster now has another one or none.
func TestStory_RestoreFromTheStorageOfTheSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stop := newRestoreStory(t)
		defer stop()
		s.addCredential(namespace, "cc", "AK")
		s.addSnapshot("snap", "", inS3(&rkev1.ETCDSnapshotS3{Bucket: "of-the-snapshot", CloudCredentialName: "cc"}))
		s.askRestore("snap")
		s.until("a machine restores", func() bool { m, _ := s.restoring(); return m != "" })
		_, command := s.restoring()
		for _, want := range []string{
			"--cluster-reset-restore-path=file-of-snap", "--etcd-s3-bucket=of-the-snapshot", "--etcd-s3-access-key=AK",
			"AWS_SECRET_ACCESS_KEY=secret-of-AK",
		} {
			if !strings.Contains(command, want) {
				t.Errorf("the restore runs %q, without %s", command, want)
			}
		}
		// A new key reaches the machine at once, because the credential wakes the cluster whose restore needs it.
		secret, err := s.world.Core.Secret().Get(namespace, "cc", metav1.GetOptions{})
		must(t, err)
		secret.Data["s3credentialConfig-accessKey"] = []byte("NEW")
		_, err = s.world.Core.Secret().Update(secret)
		must(t, err)
		synctest.Wait()
		if _, command := s.restoring(); !strings.Contains(command, "--etcd-s3-access-key=NEW") {
			t.Errorf("the restore runs %q after the credential was changed", command)
		}
		s.until("the restore is over", func() bool { return s.phase() == rkev1.ETCDSnapshotPhaseFinished && s.ready() })
	})
}

// refusedRestores holds the situations in which a restore of "snap" is refused, with the message.
var refusedRestores = map[string]struct {
	given func(s *story)
	want  string
}{
	"a snapshot of another cluster": {
		func(s *story) {
			s.addSnapshot("snap", "", func(snapshot *rkev1.ETCDSnapshot) {
				inS3(&rkev1.ETCDSnapshotS3{Bucket: "b"})(snapshot)
				snapshot.Spec.ClusterName = "other"
			})
		}, "snapshot snap is of cluster other",
	},
	"a snapshot with another cluster's label": {
		func(s *story) {
			s.addSnapshot("snap", "", func(snapshot *rkev1.ETCDSnapshot) {
				inS3(&rkev1.ETCDSnapshotS3{Bucket: "b"})(snapshot)
				snapshot.Spec.ClusterName, snapshot.Labels = "",
					map[string]string{"rke.cattle.io/cluster-name": "other"}
			})
		}, "snapshot snap is of cluster other",
	},
	"a snapshot that failed": {
		func(s *story) {
			s.addSnapshot("snap", "a", func(snapshot *rkev1.ETCDSnapshot) {
				snapshot.SnapshotFile.Status, snapshot.SnapshotFile.Message = "failed", "disk full\nmore"
			})
		}, "snapshot snap was not taken: disk full",
	},
	"a snapshot of an unknown machine": {func(s *story) { s.addSnapshot("snap", "", nil) },
		"the machine that holds snapshot snap cannot start etcd or is gone"},
	"a missing credential": {
		func(s *story) {
			s.addSnapshot("snap", "", inS3(&rkev1.ETCDSnapshotS3{Bucket: "b", CloudCredentialName: "cc"}))
		},
		"a: the snapshot's storage: spec.rkeConfig.etcd.s3.cloudCredentialName: Secret fleet-default/cc does not exist",
	},
	"an unknown name": {
		func(*story) {}, "snapshot snap is not known; to restore from a file of that name there must be exactly one " +
			"machine with etcd",
	},
}

// A restore that cannot work is refused with the reason, and everything keeps running.
func TestStory_RestoreIsRefusedBeforeAnythingStops(t *testing.T) {
	for name, tc := range refusedRestores {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, stop := newRestoreStory(t)
				defer stop()
				tc.given(s)
				s.elapse(time.Minute)
				s.askRestore("snap")
				s.elapse(time.Minute)
				c := conditions.Get(s.controlPlane().Status.Conditions, "ETCDSnapshotRestored")
				if c == nil || c.Status != "False" || c.Message != tc.want ||
					s.phase() != rkev1.ETCDSnapshotPhaseFailed {
					t.Errorf("phase is %s, condition %+v, want %q", s.phase(), c, tc.want)
				}
				for _, write := range s.api.Writes(manager) {
					if !strings.HasPrefix(write.Resource, "rkecontrolplanes.") {
						t.Errorf("the refusal writes %s", write)
					}
				}
			})
		})
	}
}

// A restore that waits with stopped machines continues when its snapshot returns. (docs/invariants.md#weaknesses, W8.)
func TestStory_SnapshotsWakeTheRestoreThatNamesThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stop := newRestoreStory(t)
		defer stop()
		s.addSnapshot("snap", "b", nil)
		s.askRestore("snap")
		s.until("machines are stopped", func() bool { return s.phase() == rkev1.ETCDSnapshotPhaseShutdown })
		must(t, s.world.RKE.ETCDSnapshot().Delete(namespace, "snap", nil))
		s.until("the restore waits", func() bool { return s.phase() == rkev1.ETCDSnapshotPhaseRestore })
		s.elapse(2 * time.Minute)
		if machine, _ := s.restoring(); machine != "" {
			t.Fatalf("%s restores from nothing", machine)
		}
		s.addSnapshot("snap", "b", nil)
		synctest.Wait()
		if machine, _ := s.restoring(); machine != "b" {
			t.Errorf("machine %q restores when the snapshot is back", machine)
		}
	})
}

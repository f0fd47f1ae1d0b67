package snapshots_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
	lists "github.com/drover-io/drover/pkg/decide/snapshots"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// expect compares the files of the existing ETCDSnapshots, in the order of their names.
func (w *world) expect(when string, want ...string) {
	w.Helper()
	if want == nil {
		want = []string{}
	}
	if diff := cmp.Diff(want, w.known()); diff != "" {
		w.Errorf("%s, the ETCDSnapshots differ (-want +got):\n%s", when, diff)
	}
}

func TestStory_SnapshotsFollowTheList(t *testing.T) {
	tell(t, func(w *world) {
		w.take("first-n1-1", "n1")
		w.pass(2 * time.Minute)
		w.expect("a minute after the first snapshot", "first-n1-1")
		found, err := w.user.RKE.ETCDSnapshot().List(fleet, metav1.ListOptions{LabelSelector: rkev1.ClusterNameLabel +
			"=demo"})
		must(w.T, err)
		if len(found.Items) != 1 || found.Items[0].OwnerReferences[0].Name != "server-a" ||
			found.Items[0].Spec.ClusterName != "demo" {
			w.Errorf("the ETCDSnapshot has the wrong owner or cluster: %+v", found.Items)
		}

		w.take("second-n1-2", "n1")
		w.pass(2 * time.Minute)
		w.expect("after another snapshot", "first-n1-1", "second-n1-2")

		w.drop("first-n1-1")
		w.pass(10 * time.Minute)
		w.expect("ten minutes after the distribution deleted a snapshot", "first-n1-1", "second-n1-2")
		w.pass(7 * time.Minute)
		w.expect("a quarter of an hour after the deletion", "second-n1-2")

		edited, err := w.user.RKE.ETCDSnapshot().Get(fleet, known(w, "second-n1-2"), metav1.GetOptions{})
		must(w.T, err)
		edited.SnapshotFile.Name = "another"
		_, err = w.user.RKE.ETCDSnapshot().Update(edited)
		must(w.T, err)
		w.pass(2 * time.Minute)
		w.expect("after a user edited the object", "second-n1-2")

		must(w.T, w.user.RKE.ETCDSnapshot().Delete(fleet, known(w, "second-n1-2"), &metav1.DeleteOptions{}))
		w.pass(2 * time.Minute)
		w.expect("after a user deleted the object, but not the file", "second-n1-2")
	})
}

// known returns the object name of a file.
func known(w *world, file string) string {
	w.Helper()
	list, err := w.user.RKE.ETCDSnapshot().List(fleet, metav1.ListOptions{})
	must(w.T, err)
	for i := range list.Items {
		if list.Items[i].SnapshotFile.Name == file {
			return list.Items[i].Name
		}
	}
	w.Fatalf("%s has no object", file)
	return ""
}

// A requested snapshot appears soon after its operation, without the wait of a minute.
func TestStory_ASnapshotThatWasAskedForIsThereSoon(t *testing.T) {
	tell(t, func(w *world) {
		w.pass(5 * time.Minute)
		w.take("on-demand-n1-1", "n1")
		w.plane(func(cp *rkev1.RKEControlPlane) {
			cp.Status.ETCDSnapshotCreate, cp.Status.ETCDSnapshotCreatePhase = &rkev1.ETCDSnapshotCreate{Generation: 1},
				rkev1.ETCDSnapshotPhaseFinished
		})
		w.pass(time.Second)
		w.expect("a second after the operation", "on-demand-n1-1")

		// Distributions write the list after the operation, so it is read again.
		w.take("late-n1-2", "n1")
		w.pass(10 * time.Second)
		w.expect("ten seconds later", "late-n1-2", "on-demand-n1-1")
	})
}

func TestStory_ASettledClusterIsAskedOnceAMinuteAndNothingIsWritten(t *testing.T) {
	tell(t, func(w *world) {
		w.take("first-n1-1", "n1")
		w.pass(5 * time.Minute)
		w.cluster.ResetLog()
		w.api.ResetLog()
		w.pass(time.Hour)
		if n := w.asked(); n < 55 || n > 65 {
			w.Errorf("the cluster got %d requests in an hour", n)
		}
		if writes := w.api.Writes(agent); len(writes) > 0 {
			w.Errorf("a settled cluster causes the writes %v", writes)
		}
	})
}

// A cluster that does not answer keeps its objects, is polled less often, and is logged once.
func TestStory_AClusterThatIsAwayKeepsItsSnapshots(t *testing.T) {
	tell(t, func(w *world) {
		w.take("first-n1-1", "n1")
		w.pass(2 * time.Minute)
		w.away.Store(true)
		w.pass(time.Hour)
		w.expect("while the cluster does not answer", "first-n1-1")
		if n := strings.Count(w.log.String(), "Cannot update the ETCDSnapshots"); n != 1 {
			w.Errorf("the problem is logged %d times:\n%s", n, w.log)
		}
		w.away.Store(false)
		w.drop("first-n1-1")
		w.pass(25 * time.Minute)
		w.expect("after the cluster answers again")
	})
}

// Clusters of older releases keep no list, and existing objects for their snapshots stay.
func TestStory_AClusterWithoutAListIsLeftAlone(t *testing.T) {
	tell(t, func(w *world) {
		w.take("first-n1-1", "n1")
		w.pass(2 * time.Minute)
		must(w.T, w.down.Discovery().RESTClient().Delete().AbsPath(
			"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/etcdsnapshotfiles.k3s.cattle.io").
			Do(w.Context()).Error())
		w.pass(10 * time.Minute)
		w.expect("without the list", "first-n1-1")
		if w.log.Len() > 0 {
			w.Errorf("the log reports a problem: %s", w.log)
		}
	})
}

// During a requested or running restore, the snapshot that it names stays, because the list of a restored cluster is
// from the past.
func TestStory_NothingChangesDuringARestore(t *testing.T) {
	tell(t, func(w *world) {
		w.take("first-n1-1", "n1")
		w.pass(2 * time.Minute)
		restore := &rkev1.ETCDSnapshotRestore{Name: known(w, "first-n1-1"), Generation: 1}
		w.plane(func(cp *rkev1.RKEControlPlane) { cp.Spec.ETCDSnapshotRestore = restore })
		w.drop("first-n1-1")
		w.pass(30 * time.Minute)
		w.expect("while the restore waits for its turn", "first-n1-1")
		w.plane(func(cp *rkev1.RKEControlPlane) {
			cp.Status.ETCDSnapshotRestore, cp.Status.ETCDSnapshotRestorePhase = restore, rkev1.ETCDSnapshotPhaseRestore
		})
		w.pass(30 * time.Minute)
		w.expect("during the restore", "first-n1-1")
		w.plane(func(cp *rkev1.RKEControlPlane) {
			cp.Status.ETCDSnapshotRestorePhase = rkev1.ETCDSnapshotPhaseFinished
		})
		w.pass(10 * time.Minute)
		w.expect("while servers read their files", "first-n1-1")
		w.pass(7 * time.Minute)
		w.expect("after servers have not found the file")
	})
}

// A restore protects its snapshot as soon as the Cluster requests it, before the control plane has the request.
func TestStory_ARestoreThatIsOnlyAskedForKeepsItsSnapshot(t *testing.T) {
	tell(t, func(w *world) {
		w.take("first-n1-1", "n1")
		w.pass(2 * time.Minute)
		found, err := w.user.Provisioning.Cluster().Get(fleet, "demo", metav1.GetOptions{})
		must(w.T, err)
		found.Spec.KubernetesVersion = "v1.36.3+k3s1"
		found.Spec.RKEConfig = &provv1.RKEConfig{
			ETCDSnapshotRestore: &rkev1.ETCDSnapshotRestore{Name: known(w, "first-n1-1"), Generation: 1}}
		_, err = w.user.Provisioning.Cluster().Update(found)
		must(w.T, err)
		w.drop("first-n1-1")
		w.pass(time.Hour)
		w.expect("after an hour", "first-n1-1")
	})
}

func TestStory_WhatIsNotOursIsLeftAlone(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"a cluster of another instance": func(w *world) {
			found, err := w.user.Provisioning.Cluster().Get(fleet, "demo", metav1.GetOptions{})
			must(w.T, err)
			found.Annotations[rkev1.InstanceAnnotation] = "another"
			_, err = w.user.Provisioning.Cluster().Update(found)
			must(w.T, err)
		},
		"a paused cluster": func(w *world) {
			found, err := w.user.CAPI.Cluster().Get(fleet, "demo", metav1.GetOptions{})
			must(w.T, err)
			found.Spec.Paused = new(true)
			_, err = w.user.CAPI.Cluster().Update(found)
			must(w.T, err)
		},
		"a cluster that is not initialized": func(w *world) {
			w.plane(func(cp *rkev1.RKEControlPlane) { cp.Status.Initialized = false })
		},
		"a cluster without a connection": func(w *world) {
			w.unknown.Store(true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			tell(t, func(w *world) {
				change(w)
				w.take("first-n1-1", "n1")
				w.pass(10 * time.Minute)
				w.expect("after ten minutes")
				if w.log.Len() > 0 {
					w.Errorf("the log reports a problem: %s", w.log)
				}
			})
		})
	}
}

// An object that a user wrote for a restore stays, even under a name that the list would produce.
func TestStory_WrittenByHandStays(t *testing.T) {
	tell(t, func(w *world) {
		name := naming.ETCDSnapshot("demo", "local", "first-n1-1", "n1",
			"file:///var/lib/rancher/k3s/server/db/snapshots/first-n1-1", 0)
		for of, labels := range map[string]map[string]string{name: nil,
			"demo-by-hand": {rkev1.ClusterNameLabel: "demo"}} {
			must(w.T, w.api.Add(&rkev1.ETCDSnapshot{
				TypeMeta:     metav1.TypeMeta{APIVersion: "rke.cattle.io/v1", Kind: "ETCDSnapshot"},
				ObjectMeta:   metav1.ObjectMeta{Namespace: fleet, Name: of, Labels: labels},
				Spec:         rkev1.ETCDSnapshotSpec{ClusterName: "demo"},
				SnapshotFile: rkev1.ETCDSnapshotFile{Name: "kept-elsewhere"},
			}))
		}
		w.take("first-n1-1", "n1")
		w.take("second-n1-2", "n1")
		w.pass(10 * time.Minute)
		w.expect("next to one of the list", "kept-elsewhere", "kept-elsewhere", "second-n1-2")
		if n := strings.Count(w.log.String(), "gets no ETCDSnapshot"); n == 0 || n > 3 {
			w.Errorf("the taken name is logged %d times:\n%s", n, w.log)
		}
		w.api.ResetLog()
		w.pass(time.Hour)
		if writes := w.api.Writes(agent); len(writes) > 0 {
			w.Errorf("an object that cannot be created causes the requests %v", writes)
		}
		must(w.T, w.user.RKE.ETCDSnapshot().Delete(fleet, name, &metav1.DeleteOptions{}))
		w.pass(2 * time.Minute)
		w.expect("after the name is free", "kept-elsewhere", "first-n1-1", "second-n1-2")
	})
}

// A refused object is logged once, and delays no other.
func TestStory_ARefusedObjectHoldsUpNoOther(t *testing.T) {
	tell(t, func(w *world) {
		w.api.Intercept(func(r memkube.Request) error {
			if r.Verb == "create" && strings.Contains(string(r.Body), "first-n1-1") {
				return apierrors.NewBadRequest("no")
			}
			return nil
		})
		w.take("first-n1-1", "n1")
		w.take("second-n1-2", "n1")
		w.pass(time.Hour)
		w.expect("after an hour", "second-n1-2")
		if n := strings.Count(w.log.String(), "Cannot update the ETCDSnapshots"); n != 1 {
			w.Errorf("the refusal is logged %d times:\n%s", n, w.log)
		}
		w.api.Intercept(nil)
		w.pass(6 * time.Minute)
		w.expect("after the end of the refusals", "first-n1-1", "second-n1-2")
	})
}

// A cluster that changes its list constantly is polled at a limited rate.
func TestStory_AClusterThatChangesItsListAllTheTime(t *testing.T) {
	tell(t, func(w *world) {
		for round := range 10 { // five minutes with 700 new snapshots
			for i := range 70 {
				w.take(fmt.Sprintf("r%d-n%d-1", round, i), "n1")
			}
			w.pass(30 * time.Second)
		}
		if n := w.api.Written(agent); n > 300+150 {
			w.Errorf("%d writes in five minutes", n)
		}
		if n := len(w.known()); n > 2*lists.MaxFiles {
			w.Errorf("%d objects", n)
		}
		if n := w.asked(); n > 5*12 { // about five polls a minute, each for versions and for the full list
			w.Errorf("the cluster got %d requests in five minutes", n)
		}
	})
}

// A node gets its Machine after the snapshot was listed, and loses it again.
func TestStory_ASnapshotNeedsItsMachine(t *testing.T) {
	tell(t, func(w *world) {
		w.take("first-n2-1", "n2")
		w.pass(2 * time.Minute)
		w.expect("without a machine for the node")
		w.addMachine("server-b", "n2")
		w.pass(2 * time.Minute)
		w.expect("after the machine exists", "first-n2-1")
		must(w.T, w.user.CAPI.Machine().Delete(fleet, "server-b", &metav1.DeleteOptions{}))
		w.pass(2 * time.Minute)
		w.expect("after the machine is deleted")
	})
}

// Wherever the process is killed, the next one produces the same objects.
func TestStory_SnapshotsWhereverTheProcessIsKilled(t *testing.T) {
	t.Parallel()
	var want []string
	crashpoints.Each(t, 6, func(t *testing.T, n int) (writes int) {
		t.Helper()
		var got []string
		inWorld(t, func(w *world) {
			if n > 0 {
				w.cut = make(chan struct{})
				w.api.CutAfter(agent, n, func() { close(w.cut) })
			}
			w.addMachine("server-b", "n2")
			for _, node := range []string{"n1", "n2"} {
				w.take("first-"+node+"-1", node)
			}
			w.pass(3 * time.Minute)
			w.drop("first-n1-1")
			w.take("second-n1-2", "n1")
			w.pass(20 * time.Minute)
			writes = w.api.Written(agent)
			w.pass(20 * time.Minute) // restarts the controller if it was killed at the very end
			got = w.known()
		})
		if want == nil {
			want = got
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("killed after write %d, the outcome differs (-never killed +killed):\n%s", n, diff)
		}
		return writes
	})
}

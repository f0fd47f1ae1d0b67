package planner

import (
	"fmt"
	"strings"
	"testing"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// While an operation has paused the cluster, no machine is replaced or removed. The operation and its pause end
// although a role has no machine any more.
func TestDecide_ALostRoleDoesNotKeepThePauseOfAnOperation(t *testing.T) {
	asks := map[string]edit{"certificates": askCertificates(1), "keys": askKeys(1), "restore": askRestore("file", 1)}
	for name, ask := range asks {
		for _, lost := range []string{"w", "c", "e"} {
			for _, answer := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/%s/agents answer=%v", name, lost, answer), func(t *testing.T) {
					m := upWith(t, rke2Version, map[string]string{"c": "control-plane", "e": "etcd", "w": "worker"})
					ask(&m.cp.Spec)
					for range 10 {
						if m.run(t); m.cluster.PausedBy != "" {
							break
						}
						m.work()
					}
					if m.cluster.PausedBy == "" {
						t.Fatal("nothing has paused the cluster")
					}
					m.deleted(lost)
					for range 40 {
						m.replace("y")
						if m.now = m.now.Add(stepDeadline); answer {
							m.work()
						}
						m.run(t)
					}
					if m.cluster.Paused || len(runningOf(m.cp.Status)) > 0 {
						t.Errorf("the cluster is paused by %q, running are %v", m.cluster.PausedBy,
							m.cp.Status.Operations)
					}
				})
			}
		}
	}
}

// A rotation pauses the cluster and the removal of machines. Therefore it begins after the removal of a member has
// ended.
func TestDecide_RotationsWaitForMembersThatLeave(t *testing.T) {
	for k, ask := range map[*kind]edit{kindCertificates: askCertificates(1), kindKeys: askKeys(1)} {
		for _, works := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/works=%v", k.Record, works), func(t *testing.T) {
				w := ready(t, three)
				w.machines["s3"].m.Deleting, w.machines["s3"].m.Held = true, true
				w.machines["s3"].probes(works)
				w.edit(ask)
				d := w.pass(t)
				if want := "it waits for machines that are being deleted to leave etcd: s3"; !strings.Contains(
					traceOf(d, k.Record), want) {
					t.Fatalf("trace is %+v", d.Trace)
				}
				if w.run(t); w.cluster.Paused {
					t.Fatal("the removal is paused")
				}
				w.machines["s3"].m.Held = false
				newDownstream(w).finish(t)
				if status, message := w.condition(k.Condition); status != "True" {
					t.Errorf("condition is %s %q", status, message)
				}
			})
		}
	}
}

// A machine that is deleted during a rotation holds it up while its member counts: until it works again, or the
// rotation gives up.
func TestDecide_AMemberThatIsDeletedDuringARotation(t *testing.T) {
	for name, tc := range map[string]struct {
		happens func(w *world)
		want    string
	}{
		"it works": {func(*world) {}, ""},
		"it does not work": {func(w *world) { w.machines["s3"].probes(false) },
			"waiting for etcd to be in order on s3"},
		"it has left etcd": {func(w *world) {
			w.machines["s3"].probes(false)
			w.machines["s3"].m.Held = false
		}, ""},
		"nor does the one that is next": {func(w *world) {
			w.machines["s3"].probes(false)
			w.machines["s2"].probes(false)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := ready(t, three)
			w.edit(askCertificates(1))
			w.run(t)
			w.machines["s3"].m.Deleting, w.machines["s3"].m.Held = true, true
			newDownstream(w).all("s1")
			tc.happens(w)
			d := w.run(t)
			if told := w.machines["s2"].hasPlan(); told != (tc.want == "") ||
				!strings.Contains(d.Wait.Message, tc.want) {
				t.Errorf("s2 is told to restart: %v; wait is %+v", told, d.Wait)
			}
		})
	}
}

// The machine on which etcd was restored stays after its deletion until others have joined it, and gets no plan any
// more.
func TestDecide_ARestoredMachineThatIsDeletedIsOnlyJoined(t *testing.T) {
	m := upWith(t, rke2Version, three)
	m.restore(t, "s2")
	m.run(t)
	m.d.all("s2")
	m.deleted("s2")
	m.edit(func(spec *rkev1.RKEControlPlaneSpec) { spec.AdditionalManifest = "kind: A\n" })
	before := m.machines["s2"].state().Checksum
	m.finishRestore(t)
	if m.machines["s2"].state().Checksum != before || len(m.d.wrong) > 0 {
		t.Errorf("s2 gets another plan, or %v", m.d.wrong)
	}
	if !m.d.node("s1").up || !m.d.node("s3").up || m.machines["s2"].m.Marks.InitNode {
		t.Errorf("s1 is up: %v, s3: %v; s2 is the init node: %v", m.d.node("s1").up, m.d.node("s3").up,
			m.machines["s2"].m.Marks.InitNode)
	}
}

package machineprovision_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/machinejob"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// isPutOff adds a machine, and reports whether it waits because others of its pool failed.
func (w *world) isPutOff(name string) bool {
	w.Helper()
	w.addMachine(name, false)
	for range 8 {
		w.step()
		w.sleep(500 * time.Millisecond)
		if ready := conditions.Get(w.status(name).Conditions, rkev1.ConditionReady); ready != nil &&
			ready.Reason == machinejob.ReasonBackOff {
			return true
		}
	}
	return false
}

// failEight makes eight machines fail and keeps them for an hour. All are being created before the first one fails,
// because after two failures the others would wait.
func (w *world) failEight() {
	w.Helper()
	const machines = 8
	w.settings.DeleteFailedAfter, w.fail = time.Hour, "no quota"
	until := func(what string, is func(rkev1.RKEMachineStatus) bool) {
		w.Helper()
		for range 40 {
			w.step()
			w.sleep(500 * time.Millisecond)
			n := 0
			for i := range machines {
				if is(w.status(fmt.Sprint("failed", i))) {
					n++
				}
			}
			if n == machines {
				return
			}
		}
		w.Fatalf("not all machines %s", what)
	}
	w.hold = true
	for i := range machines {
		w.addMachine(fmt.Sprint("failed", i), false)
	}
	until("are being created", func(s rkev1.RKEMachineStatus) bool { return s.JobName != "" })
	w.hold = false
	until("have failed", func(s rkev1.RKEMachineStatus) bool { return s.FailureReason == rkev1.ReasonCreateError })
}

// A Job that the cache lacks does not count as a failure.
func TestStory_ACacheThatIsBehindPutsNobodyOff(t *testing.T) {
	prepared(t, func(api *memkube.Server) {
		api.Lag(manager, func(of string) time.Duration {
			if of == "jobs.batch" {
				return 1500 * time.Millisecond
			}
			return 0
		})
	}, func(w *world) {
		w.run()
		w.hold = true
		for i := range 3 {
			if name := fmt.Sprint("m", i); w.isPutOff(name) {
				t.Errorf("%s is delayed, although no machine has failed", name)
			}
		}
		w.hold = false
		w.run()
	})
}

// A working machine does not reset the back-off of its pool.
func TestStory_AMachineThatWorksEndsNoBackOff(t *testing.T) {
	tell(t, func(w *world) {
		w.run()
		w.addMachine("works", false)
		w.run()
		w.failEight()
		machine, err := w.c.CAPI.Machine().Get(namespace, "works", metav1.GetOptions{})
		must(t, err)
		machine.Annotations = map[string]string{"example.com/looked-at": "true"}
		_, err = w.c.CAPI.Machine().Update(machine)
		must(t, err)
		w.sleep(time.Second)
		if !w.isPutOff("next") {
			t.Error("the next machine is created at once")
		}
	})
}

// Machines that failed before a restart, and are kept, do not delay others in the new process.
func TestStory_FailuresOfAnEarlierProcessPutNobodyOff(t *testing.T) {
	tell(t, func(w *world) {
		w.run()
		w.failEight()
		w.restart()
		w.sleep(5 * time.Second)
		if w.isPutOff("next") {
			t.Error("the next machine is delayed")
		}
	})
}

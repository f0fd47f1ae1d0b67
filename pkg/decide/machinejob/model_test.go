package machinejob_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/machinejob"
)

// world is one machine with its Jobs, its state Secret and its cloud. Decide runs against it. It may crash after any
// write, and all other events happen at any time.
type world struct {
	machinejob.Snapshot

	virtualMachines int
	released        bool
	saved           bool // the create Job wrote the state before it called the cloud
	byID            bool // the driver finds the virtual machine only by what it saves at its end
}

// pass runs Decide once and performs its actions, but only the first writes writes. The status is the last write.
func (w *world) pass(r *rapid.T, writes int) {
	if w.released {
		return
	}
	d := machinejob.Decide(w.Snapshot)
	for _, action := range d.Actions {
		if writes == 0 {
			return
		}
		writes--
		w.act(r, action)
	}
	if writes > 0 {
		w.Machine.Status = d.Status
	}
	w.Now = w.Now.Add(d.After)
}

func (w *world) act(r *rapid.T, action machinejob.Action) {
	switch action.Kind {
	case machinejob.ActionMark:
		w.Machine.Guarded, w.Machine.CAPIMachineName = true, action.Name
	case machinejob.ActionEnsure:
		w.State.Exists = true
	case machinejob.ActionRestore:
		w.Incomplete = false
	case machinejob.ActionRun:
		w.run(r, action)
	case machinejob.ActionDeleteJob, machinejob.ActionTakeBack:
		if action.Name == w.Create.Name {
			w.Create = machinejob.JobState{}
		}
		w.Removes = slices.DeleteFunc(w.Removes, func(j machinejob.JobState) bool { return j.Name == action.Name })
	case machinejob.ActionConfirmGone: // the snapshot is what the API server has
	case machinejob.ActionTidy:
		w.Create, w.Removes = machinejob.JobState{}, nil
	case machinejob.ActionReplace:
		w.Machine.Deleting, w.CAPI.Deleting = true, true
	case machinejob.ActionRelease:
		if w.virtualMachines > 0 && !w.Machine.Forced {
			r.Fatalf("the machine is forgotten while its virtual machine runs")
		}
		if w.Create.Phase == machinejob.PhaseRunning && w.Create.Started {
			r.Fatalf("the machine is released while its create runs")
		}
		w.released = true
	}
}

func (w *world) run(r *rapid.T, action machinejob.Action) {
	job := machinejob.JobState{Name: action.Name, Phase: machinejob.PhaseRunning}
	if action.Name == machinejob.CreateJobName(w.Machine.Name) {
		if w.saved { // rancher-machine writes the state before it calls the cloud
			r.Fatalf("the machine is created twice")
		}
		w.Create = job
		return
	}
	if w.Create.Phase == machinejob.PhaseRunning {
		r.Fatalf("removal starts while the create runs")
	}
	job.Attempt = 1 + len(w.Removes)
	if len(w.Removes) > 0 {
		job.Attempt = w.Removes[len(w.Removes)-1].Attempt + 1
	}
	w.Removes = append(w.Removes, job)
}

// progress lets the Job that creates the machine do its next step.
func (w *world) progress(r *rapid.T) {
	if w.Create.Phase != machinejob.PhaseRunning {
		return
	}
	w.Create.Started = true
	switch {
	case !w.saved:
		w.saved = true
		w.State.Written, w.State.Holds, w.State.Unidentified = true, true, w.byID
	case w.virtualMachines == 0 && rapid.Bool().Draw(r, "cloud gives"):
		w.virtualMachines++
	case w.virtualMachines == 1:
		w.Create.Phase, w.Create.Ended, w.State.Unidentified = machinejob.PhaseSucceeded, w.Now, false
	default:
		w.Create.Phase, w.Create.Ended = machinejob.PhaseFailed, w.Now
	}
}

// kill ends the Job that creates the machine at any point.
func (w *world) kill() {
	if w.Create.Phase == machinejob.PhaseRunning {
		w.Create.Phase, w.Create.Ended, w.Create.Started = machinejob.PhaseFailed, w.Now, true
		w.Create.Interrupted = true
	}
}

// removal ends the Job that removes the machine. The Job may have removed the machine before it failed.
func (w *world) removal(removes, succeeds bool) {
	if len(w.Removes) == 0 {
		return
	}
	last := &w.Removes[len(w.Removes)-1]
	if last.Phase != machinejob.PhaseRunning || w.Incomplete {
		return
	}
	last.Started, last.Ended = true, w.Now
	if removes || succeeds {
		w.State.Holds = false
		if !w.State.Unidentified {
			w.virtualMachines = 0
		}
	}
	last.Phase = machinejob.PhaseFailed
	if succeeds {
		last.Phase = machinejob.PhaseSucceeded
	}
}

// TestDecide_NeverForgetsOrRepeats runs random histories: crashes between any two writes, Jobs killed at any step,
// deletion at any time, and Jobs or their Secrets that another program deletes. After the disturbances end, a deleted
// machine is removed, or the user is asked to remove its host.
func TestDecide_NeverForgetsOrRepeats(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := &world{Snapshot: fresh()}
		w.Machine.Guarded, w.Machine.CAPIMachineName = false, ""
		w.byID = rapid.Bool().Draw(r, "by identifier")
		w.Settings.DeleteFailedAfter = time.Duration(rapid.IntRange(0, 2).Draw(r, "keep")) * time.Minute
		for range rapid.IntRange(1, 40).Draw(r, "events") {
			switch rapid.SampledFrom([]string{"pass", "crash", "progress", "kill", "remove", "delete", "join",
				"lose", "meddle"}).Draw(r, "event") {
			case "pass":
				w.pass(r, 10)
			case "crash":
				w.pass(r, rapid.IntRange(0, 3).Draw(r, "writes"))
			case "progress":
				w.progress(r)
			case "kill":
				w.kill()
			case "remove":
				w.removal(rapid.Bool().Draw(r, "removes"), rapid.Bool().Draw(r, "succeeds"))
			case "delete":
				w.Machine.Deleting = w.Machine.Deleting || w.Machine.Guarded
			case "join":
				if w.Create.Phase == machinejob.PhaseSucceeded {
					w.Machine.Spec["providerID"] = "sim://1"
				}
			case "lose":
				w.Incomplete = len(w.Removes) > 0 && w.Removes[len(w.Removes)-1].Phase == machinejob.PhaseRunning
			case "meddle":
				w.Incomplete = false
				w.Removes, w.Create = nil, machinejob.JobState{}
			}
		}
		w.settle(r)
	})
}

func (w *world) settle(r *rapid.T) {
	for range 60 {
		w.Machine.Deleting = w.Machine.Deleting || w.Machine.Guarded
		w.pass(r, 10)
		w.Now = w.Now.Add(time.Minute)
		w.progress(r)
		w.removal(true, true)
		if deleted := conditions.Get(w.Machine.Status.Conditions, rkev1.ConditionDeleteJob); deleted != nil &&
			deleted.Reason == machinejob.ReasonUnconfirmed && w.State.Exists {
			w.virtualMachines, w.Machine.Forced = 0, true
		}
	}
	if w.Machine.Deleting && !w.released {
		r.Fatalf("the machine is not removed: %+v\ndecision: %+v", w.Snapshot, machinejob.Decide(w.Snapshot))
	}
}

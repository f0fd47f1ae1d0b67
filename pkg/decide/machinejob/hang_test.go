package machinejob_test

import (
	"strings"
	"testing"
	"time"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/machinejob"
	"github.com/drover-io/drover/pkg/decide/outcome"
)

// interrupted is a machine whose driver was ended while it created the host, so that its state has no identifier.
func interrupted() machinejob.Snapshot {
	s := failed()
	s.State = machinejob.StateSecret{Exists: true, Written: true, Holds: true, Unidentified: true}
	s.Create.Interrupted = true
	return deleting(s)
}

func TestDecide_HostThatTheDriverCannotFind(t *testing.T) {
	const unconfirmed = "False/" + machinejob.ReasonUnconfirmed
	checkDecide(t, map[string]decideCase{
		"the driver was ended: its removal would succeed and leave the host": {
			snapshot: interrupted, wantReady: unconfirmed, wantCreate: "False/CreateError", wantDelete: unconfirmed,
			wantFailure: rkev1.ReasonDeleteError, wantWait: "another attempt",
		},
		"the Job is gone, and with it how the driver ended": {
			snapshot:  with(interrupted, func(s *machinejob.Snapshot) { s.Create = machinejob.JobState{} }),
			wantReady: unconfirmed, wantCreate: "False/CreateError", wantDelete: unconfirmed,
			wantFailure: rkev1.ReasonDeleteError, wantWait: "another attempt",
		},
		"the driver failed by itself, and has left nothing": {
			snapshot:  with(interrupted, func(s *machinejob.Snapshot) { s.Create.Interrupted = false }),
			wantReady: "False/Deleting", wantCreate: "False/CreateError", wantDelete: "Unknown/Deleting",
			wantWait: "the Job that removes",
		},
		"the user has removed the host": {
			snapshot:    with(interrupted, func(s *machinejob.Snapshot) { s.Machine.Forced = true }),
			wantActions: []string{"Release"}, wantReady: "False/CreateError", wantCreate: "False/CreateError",
			wantFailure: rkev1.ReasonCreateError,
		},
	})
	message := conditions.Get(machinejob.Decide(interrupted()).Status.Conditions, rkev1.ConditionReady).Message
	for _, want := range []string{"remove the host demo-pool-a-7c9fd-x2k4q in the cloud",
		rkev1.ForceMachineRemoveAnnotation} {
		if !strings.Contains(message, want) {
			t.Errorf("message %q must contain %q", message, want)
		}
	}
}

// DigitalOcean refused a droplet, for example because of a quota. The removal of such a machine can never succeed.
func TestDecide_RemovalWithoutAHost(t *testing.T) {
	const text = "Error removing host \"m\": dropletID is invalid because cannot be less than 1"
	refused := func(message string, edit func(*machinejob.Snapshot)) func() machinejob.Snapshot {
		return with(interrupted, func(s *machinejob.Snapshot) {
			s.Driver.Name, s.Create.Interrupted = "digitalocean", false
			removeJob(s, 1, machinejob.PhaseFailed, message)
			if edit != nil {
				edit(s)
			}
		})
	}
	for name, tc := range map[string]struct {
		snapshot func() machinejob.Snapshot
		released bool
	}{
		"the driver failed by itself": {refused(text, nil), true},
		"another error":               {refused("401 Unauthorized", nil), false},
		"another driver":              {refused(text, func(s *machinejob.Snapshot) { s.Driver.Name = "sim" }), false},
		"the driver was ended": {refused(text, func(s *machinejob.Snapshot) { s.Create.Interrupted = true }),
			false},
		"the state has a droplet": {refused(text, func(s *machinejob.Snapshot) { s.State.Unidentified = false }),
			false},
	} {
		actions := machinejob.Decide(tc.snapshot()).Actions
		if got := len(actions) == 1 && actions[0].Kind == machinejob.ActionRelease; got != tc.released {
			t.Errorf("%s: actions %+v, want release %v", name, actions, tc.released)
		}
	}
}

// The user learns how to end a driver that hangs, whatever it does.
func TestDecide_DriverThatHangs(t *testing.T) {
	const remedy = `kubectl patch job -n `
	began := func(ago time.Duration, s machinejob.Snapshot) machinejob.Snapshot {
		job := &s.Create
		if len(s.Removes) > 0 {
			job = &s.Removes[0]
		}
		job.Began = now.Add(-ago)
		return s
	}
	removing := deleting(created())
	removing.Removes = []machinejob.JobState{{Name: "r", Phase: machinejob.PhaseRunning, Attempt: 1, Started: true}}
	for name, snapshot := range map[string]machinejob.Snapshot{
		"creating": running(), "creating while it is deleted": deleting(running()), "removing": removing,
	} {
		d := machinejob.Decide(began(time.Minute, snapshot))
		message := conditions.Get(d.Status.Conditions, rkev1.ConditionReady).Message
		if strings.Contains(message, remedy) || d.After != 14*time.Minute {
			t.Errorf("%s for a minute: %q, next check after %s", name, message, d.After)
		}
		d = machinejob.Decide(began(16*time.Minute, snapshot))
		message = conditions.Get(d.Status.Conditions, rkev1.ConditionReady).Message
		if !strings.Contains(message, remedy) || d.After != 0 {
			t.Errorf("%s for 16 minutes: %q, next check after %s", name, message, d.After)
		}
		if err := outcome.CheckStable(message); err != nil {
			t.Error(err)
		}
	}
}

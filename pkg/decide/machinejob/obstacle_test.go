package machinejob_test

import (
	"strings"
	"testing"
	"time"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/machinejob"
)

// TestObstacleOf reads the conditions that Decide writes: an obstacle must be recognized by the text of its condition.
func TestObstacleOf(t *testing.T) {
	const giveUp = "provisioning.cattle.io/force-machine-remove=true on SimMachine demo-pool-a-7c9fd-x2k4q"
	for name, test := range map[string]struct {
		snapshot  func() machinejob.Snapshot
		want      []string
		wantStuck bool
	}{
		"a failed creation says nothing about the removal": {snapshot: failed},
		"a removal that makes progress":                    {snapshot: removeIntended},
		"the Job that creates the machine runs": {
			snapshot: with(running, func(s *machinejob.Snapshot) {
				*s = deleting(*s)
				s.Settings.CreateDeadline = time.Hour
			}),
			want: []string{"starts after the end of the Job that creates it, which runs for at most 60 minutes"},
		},
		"the pod that removes the machine does not start": {
			snapshot: with(removeIntended, func(s *machinejob.Snapshot) {
				removeJob(s, 1, machinejob.PhaseRunning, "ImagePullBackOff: no such image")
			}),
			want: []string{"ImagePullBackOff: no such image"},
		},
		"the credential is gone": {
			snapshot: with(removeIntended, func(s *machinejob.Snapshot) { s.CredentialError = "Secret x/y is missing" }),
			want:     []string{"Secret x/y is missing", "Create the Secret again", giveUp}, wantStuck: true,
		},
		"the credential is denied": {
			snapshot: with(removeIntended, func(s *machinejob.Snapshot) {
				s.CredentialError, s.CredentialDenied = "Secret x/y is not granted", true
			}),
			want: []string{"Secret x/y is not granted", "Permit the Secret", giveUp}, wantStuck: true,
		},
		"the driver fails": {
			snapshot: with(removeIntended, func(s *machinejob.Snapshot) {
				removeJob(s, 1, machinejob.PhaseFailed, strings.Repeat("much output ", 100)+"quota exceeded")
			}),
			want: []string{"quota exceeded", "Drover tries again", giveUp}, wantStuck: true,
		},
		"the state is lost": {
			snapshot: with(created, func(s *machinejob.Snapshot) {
				*s = deleting(*s)
				s.State = machinejob.StateSecret{}
			}),
			want: []string{"remove it in the cloud", "provisioning.cattle.io/force-machine-remove"}, wantStuck: true,
		},
		"the machine is protected": {
			snapshot: with(created, func(s *machinejob.Snapshot) { *s = deleting(*s); s.Protected = true }),
			want:     []string{"drover.io/protect", "Remove the annotation"}, wantStuck: true,
		},
		"the machine is paused": {
			snapshot: with(created, func(s *machinejob.Snapshot) { *s = deleting(*s); s.Machine.Paused = true }),
			want:     []string{"it is paused", "Remove annotation cluster.x-k8s.io/paused"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := test.snapshot()
			ready := conditions.Get(machinejob.Decide(s).Status.Conditions, rkev1.ConditionReady)
			got := machinejob.ObstacleOf(s.Machine.Kind, s.Machine.Name, ready.Reason, ready.Message)
			if got.Stuck != test.wantStuck || (got.Message != "") != (len(test.want) > 0) {
				t.Errorf("obstacle of %+v is %+v", ready, got)
			}
			if len(got.Message) > 800 {
				t.Errorf("the message has %d bytes", len(got.Message))
			}
			for _, want := range test.want {
				if !strings.Contains(got.Message, want) {
					t.Errorf("message %q must contain %q", got.Message, want)
				}
			}
		})
	}
}

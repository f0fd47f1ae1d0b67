package machinejob_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/machinejob"
)

// TestObstacleOf reads the conditions that Decide writes: an obstacle must be recognized by the text of its condition.
func TestObstacleOf(t *testing.T) {
	encoded := "UnauthorizedOperation: You are not authorized to perform this operation. Encoded authorization " +
		"failure message: " + strings.Repeat("ü", 400)
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
			snapshot: with(removeIntended, func(s *machinejob.Snapshot) {
				s.CredentialError = "Secret x/y is missing"
			}),
			want: []string{"Secret x/y is missing", "Create the Secret again", giveUp}, wantStuck: true,
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
		"a long word stands between the cause and the request": {
			snapshot: with(removeIntended, func(s *machinejob.Snapshot) {
				removeJob(s, 1, machinejob.PhaseFailed, encoded+" status code: 403, request id: 0a1b")
			}),
			want: []string{"failed: UnauthorizedOperation: You are not authorized", "status code: 403, request id: 0a1b",
				giveUp}, wantStuck: true,
		},
		"a long word is last": {
			snapshot: with(removeIntended, func(s *machinejob.Snapshot) {
				removeJob(s, 1, machinejob.PhaseFailed, encoded)
			}),
			want: []string{"failed: UnauthorizedOperation: You are not authorized", "ü. Drover tries again",
				giveUp},
			wantStuck: true,
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
			if len(got.Message) > 800 || !utf8.ValidString(got.Message) {
				t.Errorf("the message has %d bytes: %q", len(got.Message), got.Message)
			}
			for _, want := range test.want {
				if !strings.Contains(got.Message, want) {
					t.Errorf("message %q must contain %q", got.Message, want)
				}
			}
		})
	}
}

// TestObstacleOf_RetryKeepsTheFailure: the Cluster reports a failure once, however often Drover tries again.
func TestObstacleOf_RetryKeepsTheFailure(t *testing.T) {
	s := removeIntended()
	var got []machinejob.Obstacle
	pass := func() {
		s.Machine.Status = machinejob.Decide(s).Status
		ready := conditions.Get(s.Machine.Status.Conditions, rkev1.ConditionReady)
		obstacle := machinejob.ObstacleOf(s.Machine.Kind, s.Machine.Name, ready.Reason, ready.Message)
		if len(got) == 0 || got[len(got)-1] != obstacle {
			got = append(got, obstacle)
		}
	}
	for attempt := 1; attempt <= 4; attempt++ {
		pass() // starts the Job
		s.Removes = nil
		removeJob(&s, attempt, machinejob.PhaseRunning, "")
		pass()
		s.Removes = nil
		removeJob(&s, attempt, machinejob.PhaseFailed, "quota exceeded")
		s.Removes[0].Ended = s.Now
		pass()
		s.Now = s.Now.Add(time.Hour)
	}
	failure := machinejob.Obstacle{Reason: "DeleteError", Stuck: true, Message: "Removing SimMachine " +
		"fleet-default/demo-pool-a-7c9fd-x2k4q failed: quota exceeded. Drover tries again within an hour. If the " +
		"host is gone, set annotation provisioning.cattle.io/force-machine-remove=true on SimMachine " +
		"demo-pool-a-7c9fd-x2k4q"}
	if diff := cmp.Diff([]machinejob.Obstacle{{}, failure}, got); diff != "" {
		t.Errorf("changes of the obstacle (-want +got):\n%s", diff)
	}
	removeJob(&s, 5, machinejob.PhaseRunning, "ImagePullBackOff: no such image")
	pass()
	const want = "failed: quota exceeded. The next attempt has a problem: ImagePullBackOff: no such image. "
	if last := got[len(got)-1]; last.Reason != "DeleteError" || !strings.Contains(last.Message, want) {
		t.Errorf("a retry that does not start is %+v", last)
	}
}

package machinejob_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/machinejob"
	"github.com/drover-io/drover/pkg/decide/outcome"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fresh is a machine with everything that its creation needs, before the first pass.
func fresh() machinejob.Snapshot {
	in := simInput()
	in.Machine.Guarded = true
	return machinejob.Snapshot{
		Machine: in.Machine, CAPI: &machinejob.CAPIMachine{Name: in.Machine.Name, BootstrapSecret: in.BootstrapSecret},
		Cluster:        &machinejob.ClusterState{Cluster: in.Cluster, InfrastructureReady: true},
		BootstrapReady: true, Driver: in.Driver, Credential: in.Credential, Settings: in.Settings, Now: now,
	}
}

// intended is fresh after the intent to create was stored.
func intended() machinejob.Snapshot {
	s := fresh()
	s.Machine.Status = machinejob.Decide(s).Status
	return s
}

// running is a machine whose Job was created and recorded.
func running() machinejob.Snapshot {
	s := intended()
	s.Machine.Status = machinejob.Decide(s).Status
	s.State.Exists = true
	s.Create = machinejob.JobState{Name: s.Machine.Status.JobName, Phase: machinejob.PhaseRunning, Started: true}
	return s
}

// created is a machine whose creation succeeded.
func created() machinejob.Snapshot {
	s := running()
	s.State = machinejob.StateSecret{Exists: true, Written: true, Holds: true}
	s.Create.Phase, s.Create.Ended = machinejob.PhaseSucceeded, now.Add(-time.Minute)
	s.Machine.Status = machinejob.Decide(s).Status
	return s
}

func TestDecide_MachineWithLostStatusIsNotCreatedAgain(t *testing.T) {
	s := created()
	want := s.Machine.Status
	s.Machine.Spec["providerID"] = "sim://1"
	s.Machine.Status = rkev1.RKEMachineStatus{}
	s.Create = machinejob.JobState{}
	d := machinejob.Decide(s)
	if len(d.Actions) > 0 {
		t.Errorf("actions for an existing machine: %v", kinds(d))
	}
	if d.Status.DriverURL != want.DriverURL || d.Status.CloudCredentialSecretName != want.CloudCredentialSecretName ||
		d.Status.FailureReason != "" {
		t.Errorf("the status is %+v, was %+v", d.Status, want)
	}
	if condition(d, rkev1.ConditionReady) != "True/" || condition(d, rkev1.ConditionCreateJob) != "True/" {
		t.Errorf("conditions are %+v", d.Status.Conditions)
	}
}

// TestDecide_MachineWithLostStatus checks machines whose status, and possibly state, were lost in a move or a
// restore. The remaining facts decide.
func TestDecide_MachineWithLostStatus(t *testing.T) {
	const host = "sim://1"
	held := machinejob.StateSecret{Exists: true, Written: true, Holds: true}
	cases := map[string]struct {
		providerID        string
		state             machinejob.StateSecret
		ready, create     string
		deleted           []string
		unconfirmedRemove bool
	}{
		"with its host and its state": {host, held, "True/", "True/", nil, false},
		"with its host and a state Secret without a state": {
			host, machinejob.StateSecret{Exists: true}, "False/StateMissing", "", []string{"Release machine-provision"},
			false,
		},
		"with its host and no state Secret": {host, machinejob.StateSecret{}, "False/StateMissing", "",
			[]string{"ConfirmGone"}, true},
		"with a state and no host": {"", held, "False/Creating", "Unknown/Creating", nil, false},
		"with no host and no state": {"", machinejob.StateSecret{}, "False/Creating", "Unknown/Creating",
			[]string{"Release machine-provision"}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := fresh()
			s.State = c.state
			if c.providerID != "" {
				s.Machine.Spec["providerID"] = c.providerID
			}
			d := machinejob.Decide(s)
			if got := condition(d, rkev1.ConditionReady); got != c.ready ||
				condition(d, rkev1.ConditionCreateJob) != c.create || len(d.Actions) > 0 {
				t.Errorf("Ready is %s, CreateJob %s, want %s and %s, actions %v", got,
					condition(d, rkev1.ConditionCreateJob), c.ready, c.create, kinds(d))
			}
			if strings.HasSuffix(c.ready, "Missing") && (d.Wait == "" || d.After == 0) {
				t.Error("no check is scheduled")
			}
			if c.deleted == nil {
				return // with a state, it is removed like any other
			}
			d = machinejob.Decide(deleting(s))
			if diff := cmp.Diff(c.deleted, kinds(d)); diff != "" {
				t.Errorf("deleted (-want +got):\n%s", diff)
			}
			if got := condition(d,
				rkev1.ConditionReady) == "False/"+machinejob.ReasonUnconfirmed; got != c.unconfirmedRemove {
				t.Errorf("Ready is %s", condition(d, rkev1.ConditionReady))
			}
		})
	}
}

func deleting(s machinejob.Snapshot) machinejob.Snapshot {
	s.Machine.Deleting = true
	s.CAPI, s.Cluster, s.DriverError, s.Driver.URL, s.Driver.SHA256 = nil, nil, "NodeDriver sim does not exist", "", ""
	return s
}

func kinds(d machinejob.Decision) []string {
	var out []string
	for _, action := range d.Actions {
		text := string(action.Kind)
		if action.Name != "" {
			text += " " + strings.TrimPrefix(action.Name, "demo-pool-a-7c9fd-x2k4q-")
		}
		out = append(out, text)
	}
	return out
}

// condition is "status/reason" of a condition, empty when there is none.
func condition(d machinejob.Decision, kind string) string {
	c := conditions.Get(d.Status.Conditions, kind)
	if c == nil {
		return ""
	}
	return c.Status + "/" + c.Reason
}

type decideCase struct {
	snapshot    func() machinejob.Snapshot
	wantActions []string
	wantReady   string
	wantCreate  string
	wantDelete  string
	wantFailure string
	wantWait    string
	wantAfter   time.Duration
}

func checkDecide(t *testing.T, tests map[string]decideCase) {
	t.Helper()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := test.snapshot()
			d := machinejob.Decide(s)
			if diff := cmp.Diff(test.wantActions, kinds(d)); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			for kind, want := range map[string]string{
				rkev1.ConditionReady: test.wantReady, rkev1.ConditionCreateJob: test.wantCreate,
				rkev1.ConditionDeleteJob: test.wantDelete,
			} {
				if got := condition(d, kind); got != want {
					t.Errorf("condition %s is %q, want %q", kind, got, want)
				}
			}
			if d.Status.FailureReason != test.wantFailure {
				t.Errorf("failure reason is %q, want %q", d.Status.FailureReason, test.wantFailure)
			}
			if !strings.Contains(d.Wait, test.wantWait) || (d.Wait == "") != (test.wantWait == "") {
				t.Errorf("waits for %q, want %q", d.Wait, test.wantWait)
			}
			if d.After != test.wantAfter {
				t.Errorf("checks again after %s, want %s", d.After, test.wantAfter)
			}
			if again := machinejob.Decide(test.snapshot()); !cmp.Equal(d, again) {
				t.Errorf("deciding twice differs:\n%s", cmp.Diff(d, again))
			}
			for _, c := range d.Status.Conditions {
				if err := outcome.CheckStable(c.Message); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func with(s func() machinejob.Snapshot, change func(*machinejob.Snapshot)) func() machinejob.Snapshot {
	return func() machinejob.Snapshot {
		out := s()
		change(&out)
		return out
	}
}

func TestDecide_GatesCreation(t *testing.T) {
	checkDecide(t, map[string]decideCase{
		"it has no owner yet": {snapshot: with(fresh, func(s *machinejob.Snapshot) {
			s.CAPI = nil
		}), wantWait: "the Machine that owns"},
		"its cluster is missing": {snapshot: with(fresh, func(s *machinejob.Snapshot) {
			s.Cluster = nil
		}), wantWait: "the Cluster"},
		"its cluster is paused": {snapshot: with(fresh, func(s *machinejob.Snapshot) {
			s.Cluster.Paused = true
		}), wantWait: "the pause"},
		"it is paused itself": {snapshot: with(fresh, func(s *machinejob.Snapshot) {
			s.Machine.Paused = true
		}), wantWait: "the pause"},
		"no infrastructure yet": {snapshot: with(fresh, func(s *machinejob.Snapshot) {
			s.Cluster.InfrastructureReady = false
		}), wantWait: "infrastructure"},
		"no bootstrap data yet": {snapshot: with(fresh, func(s *machinejob.Snapshot) {
			s.CAPI.BootstrapSecret = ""
		}), wantWait: "bootstrap data"},
		"bootstrap is not ready": {snapshot: with(fresh, func(s *machinejob.Snapshot) {
			s.BootstrapReady = false
		}), wantWait: "the bootstrap object's data"},
		"no finalizer": {snapshot: with(fresh, func(s *machinejob.Snapshot) {
			s.Machine.Guarded = false
		}), wantActions: []string{"Mark demo-pool-a-7c9fd-x2k4q"}, wantWait: "finalizer"},
		"it has no owner label": {snapshot: with(fresh, func(s *machinejob.Snapshot) {
			s.Machine.CAPIMachineName = ""
		}), wantActions: []string{"Mark demo-pool-a-7c9fd-x2k4q"}, wantWait: "label"},
		"its driver is inactive": {
			snapshot:  with(fresh, func(s *machinejob.Snapshot) { s.DriverError = "NodeDriver sim is not active" }),
			wantReady: "False/DriverUnavailable", wantWait: "NodeDriver sim", wantAfter: 15 * time.Second,
		},
		"its credential is missing": {
			snapshot: with(fresh, func(s *machinejob.Snapshot) {
				s.CredentialError = "Secret cattle-global-data/cc-abcde does not exist"
			}),
			wantReady: "False/CredentialMissing", wantWait: "cc-abcde", wantAfter: 15 * time.Second,
		},
	})
}

func TestDecide_CreatesOnce(t *testing.T) {
	checkDecide(t, map[string]decideCase{
		"first the intent, and no Job": {
			snapshot: fresh, wantReady: "False/Creating", wantCreate: "Unknown/Creating",
			wantWait: "the Job that creates",
		},
		"then the Job": {
			snapshot: intended, wantActions: []string{"Ensure", "Run machine-provision"}, wantReady: "False/Creating",
			wantCreate: "Unknown/Creating", wantWait: "the Job that creates",
		},
		"after a restart the Job is found and not created again": {
			snapshot: with(intended, func(s *machinejob.Snapshot) {
				s.Create = machinejob.JobState{Name: machinejob.CreateJobName(s.Machine.Name),
					Phase: machinejob.PhaseRunning}
			}),
			wantReady: "False/Creating", wantCreate: "Unknown/Creating", wantWait: "the Job that creates",
		},
		"a changed setting does not replace a running Job": {
			snapshot: with(running, func(s *machinejob.Snapshot) {
				s.Settings.Image, s.Driver.SHA256 = "other", "other"
			}),
			wantReady: "False/Creating", wantCreate: "Unknown/Creating", wantWait: "the Job that creates",
		},
		"a recorded Job that disappears fails the machine": {
			snapshot:    with(running, func(s *machinejob.Snapshot) { s.Create = machinejob.JobState{} }),
			wantActions: []string{"ConfirmGone machine-provision"},
			wantReady:   "False/CreateError", wantCreate: "False/CreateError", wantFailure: "CreateError",
			wantWait: "replacement",
		},
		"a Job that disappears after it wrote its state fails the machine": {
			snapshot:    with(intended, func(s *machinejob.Snapshot) { s.State.Written = true }),
			wantActions: []string{"ConfirmGone machine-provision"},
			wantReady:   "False/CreateError", wantCreate: "False/CreateError", wantFailure: "CreateError",
			wantWait: "replacement",
		},
		"success": {
			snapshot: created, wantReady: "True/", wantCreate: "True/", wantWait: "provider ID",
		},
		"the node joined: everything except the state is deleted": {
			snapshot:    with(created, func(s *machinejob.Snapshot) { s.Machine.Spec["providerID"] = "k3s://m" }),
			wantActions: []string{"Tidy"}, wantReady: "True/", wantCreate: "True/",
		},
	})
}

func failed() machinejob.Snapshot {
	s := running()
	s.Create = machinejob.JobState{Name: s.Create.Name, Phase: machinejob.PhaseFailed, Started: true,
		Message: "no quota", Ended: now}
	s.Machine.Status = machinejob.Decide(s).Status
	return s
}

func TestDecide_FailedCreate(t *testing.T) {
	checkDecide(t, map[string]decideCase{
		"the cause is reported before anything is deleted": {
			snapshot: with(running, func(s *machinejob.Snapshot) {
				s.Create = machinejob.JobState{Name: s.Create.Name, Phase: machinejob.PhaseFailed, Message: "no quota",
					Ended: now}
			}),
			wantReady: "False/CreateError", wantCreate: "False/CreateError", wantFailure: "CreateError",
			wantWait: "replacement",
		},
		"then the Machine is replaced": {
			snapshot: failed, wantActions: []string{"Replace demo-pool-a-7c9fd-x2k4q"}, wantReady: "False/CreateError",
			wantCreate: "False/CreateError", wantFailure: "CreateError", wantWait: "deletion",
		},
		"a failed machine is kept for a while": {
			snapshot: with(failed, func(s *machinejob.Snapshot) {
				s.Settings.DeleteFailedAfter, s.Now = 10*time.Minute, now.Add(4*time.Minute)
			}),
			wantReady: "False/CreateError", wantCreate: "False/CreateError", wantFailure: "CreateError",
			wantWait: "grace period", wantAfter: 6 * time.Minute,
		},
		"it is deleted only once": {
			snapshot:  with(failed, func(s *machinejob.Snapshot) { s.CAPI.Deleting = true }),
			wantReady: "False/CreateError", wantCreate: "False/CreateError", wantFailure: "CreateError",
			wantWait: "deletion",
		},
	})
	message := conditions.Get(machinejob.Decide(failed()).Status.Conditions, rkev1.ConditionReady).Message
	if want := "Creating SimMachine fleet-default/demo-pool-a-7c9fd-x2k4q failed: no quota"; message != want {
		t.Errorf("message is %q, want %q", message, want)
	}
}

// removeJob adds a Job that removes the machine.
func removeJob(s *machinejob.Snapshot, attempt int, phase machinejob.Phase, message string) {
	s.Removes = append(s.Removes, machinejob.JobState{
		Name: machinejob.RemoveJobName(s.Machine.Name, attempt), Attempt: attempt, Phase: phase, Started: true,
		Message: message, Ended: now,
	})
}

func removeIntended() machinejob.Snapshot {
	s := deleting(created())
	s.Machine.Status = machinejob.Decide(s).Status
	return s
}

func TestDecide_Removes(t *testing.T) {
	checkDecide(t, map[string]decideCase{
		"without Drover's finalizer it is ignored": {
			snapshot: with(fresh, func(s *machinejob.Snapshot) { *s = deleting(*s); s.Machine.Guarded = false }),
		},
		"its cluster is protected: the host is kept": {
			snapshot:  with(created, func(s *machinejob.Snapshot) { *s = deleting(*s); s.Protected = true }),
			wantReady: "False/Protected", wantCreate: "True/", wantWait: "the end of the protection",
			wantAfter: 15 * time.Second,
		},
		"it is exempt from the protection of its cluster": {
			snapshot: with(created, func(s *machinejob.Snapshot) {
				*s = deleting(*s)
				s.Protected, s.Machine.Protection = true, "false"
			}),
			wantReady: "False/Deleting", wantCreate: "True/", wantDelete: "Unknown/Deleting",
			wantWait: "the Job that removes",
		},
		"it is protected itself": {
			snapshot: with(removeIntended, func(s *machinejob.Snapshot) {
				s.CAPI = &machinejob.CAPIMachine{Protection: "true"}
			}),
			wantReady: "False/Protected", wantCreate: "True/", wantDelete: "Unknown/Deleting",
			wantWait: "the end of the protection", wantAfter: 15 * time.Second,
		},
		"a user gave up a protected machine": {
			snapshot: with(created, func(s *machinejob.Snapshot) {
				*s = deleting(*s)
				s.Protected, s.Machine.Forced = true, true
			}),
			wantActions: []string{"Release"}, wantReady: "True/", wantCreate: "True/",
		},
		"its cluster is paused: the removal does not start": {
			snapshot: with(created, func(s *machinejob.Snapshot) {
				*s = deleting(*s)
				s.Cluster = &machinejob.ClusterState{Paused: true, Kept: true}
			}),
			wantReady: "True/", wantCreate: "True/", wantWait: "the end of the pause", wantAfter: 15 * time.Second,
		},
		"an operation paused its cluster": {
			snapshot: with(created, func(s *machinejob.Snapshot) {
				*s = deleting(*s)
				s.Cluster = &machinejob.ClusterState{Paused: true}
			}),
			wantReady: "False/Deleting", wantCreate: "True/", wantDelete: "Unknown/Deleting",
			wantWait: "the Job that removes",
		},
		"it is paused and being deleted": {
			snapshot:  with(created, func(s *machinejob.Snapshot) { *s = deleting(*s); s.Machine.Paused = true }),
			wantReady: "False/Paused", wantCreate: "True/", wantWait: "the end of the pause",
			wantAfter: 15 * time.Second,
		},
		"nothing was intended": {
			snapshot: with(fresh, func(s *machinejob.Snapshot) {
				*s = deleting(*s)
			}), wantActions: []string{"Release machine-provision"},
		},
		"the intent exists, but no Job was created": {
			snapshot:    with(intended, func(s *machinejob.Snapshot) { *s = deleting(*s) }),
			wantActions: []string{"Release machine-provision"}, wantReady: "False/Creating",
			wantCreate: "Unknown/Creating",
		},
		"the create runs: the driver may be about to record the machine": {
			snapshot:  with(running, func(s *machinejob.Snapshot) { *s = deleting(*s) }),
			wantReady: "False/Deleting", wantCreate: "Unknown/Creating", wantWait: "the Job that creates",
		},
		"the create's pod never ran: the Job is deleted": {
			snapshot:    with(running, func(s *machinejob.Snapshot) { *s = deleting(*s); s.Create.Started = false }),
			wantActions: []string{"TakeBack machine-provision"}, wantReady: "False/Deleting",
			wantCreate: "Unknown/Creating", wantWait: "the Job that creates",
		},
		"the create failed before it created anything": {
			snapshot:    with(failed, func(s *machinejob.Snapshot) { *s = deleting(*s) }),
			wantActions: []string{"Release"}, wantReady: "False/CreateError", wantCreate: "False/CreateError",
			wantFailure: "CreateError",
		},
		"the state is lost": {
			snapshot: with(created, func(s *machinejob.Snapshot) {
				*s = deleting(*s)
				s.State = machinejob.StateSecret{}
			}),
			wantActions: []string{"ConfirmGone"},
			wantReady:   "False/RemovalUnconfirmed", wantCreate: "True/", wantDelete: "False/RemovalUnconfirmed",
			wantFailure: "DeleteError", wantWait: "another attempt", wantAfter: time.Minute,
		},
		"first the intent": {
			snapshot:  with(created, func(s *machinejob.Snapshot) { *s = deleting(*s) }),
			wantReady: "False/Deleting", wantCreate: "True/", wantDelete: "Unknown/Deleting",
			wantWait: "the Job that removes",
		},
		"then the Job": {
			snapshot: removeIntended, wantActions: []string{"Ensure", "Run machine-provision-remove-1"},
			wantReady: "False/Deleting", wantCreate: "True/", wantDelete: "Unknown/Deleting",
			wantWait: "the Job that removes",
		},
		"the credential is missing": {
			snapshot: with(removeIntended, func(s *machinejob.Snapshot) {
				s.CredentialError = "Secret x/y does not exist"
			}),
			wantReady: "False/CredentialMissing", wantCreate: "True/", wantDelete: "False/CredentialMissing",
			wantFailure: "DeleteError",
			wantWait:    "another attempt", wantAfter: 15 * time.Second,
		},
		"the Job runs": {
			snapshot: with(removeIntended, func(s *machinejob.Snapshot) {
				removeJob(s, 1, machinejob.PhaseRunning, "ImagePullBackOff: no such image")
			}),
			wantReady: "False/Deleting", wantCreate: "True/", wantDelete: "Unknown/Deleting",
			wantWait: "the Job that removes",
		},
		"the Job runs, and its pods lack a Secret": {
			snapshot: with(removeIntended, func(s *machinejob.Snapshot) {
				removeJob(s, 2, machinejob.PhaseRunning, "")
				s.Incomplete = true
			}),
			wantActions: []string{"Restore"}, wantReady: "False/Deleting", wantCreate: "True/",
			wantDelete: "Unknown/Deleting", wantWait: "the Job that removes",
		},
		"the Job runs, and its pods lack a Secret that needs a missing credential": {
			snapshot: with(removeIntended, func(s *machinejob.Snapshot) {
				removeJob(s, 1, machinejob.PhaseRunning, "")
				s.Incomplete, s.CredentialError = true, "Secret x/y does not exist"
			}),
			wantReady: "False/Deleting", wantCreate: "True/", wantDelete: "Unknown/Deleting",
			wantWait: "the Job that removes", wantAfter: 15 * time.Second,
		},
		"a Job that is being deleted gets nothing": {
			snapshot: with(removeIntended, func(s *machinejob.Snapshot) {
				removeJob(s, 1, machinejob.PhaseRunning, "")
				s.Incomplete, s.Removes[0].Deleting = true, true
			}),
			wantReady: "False/Deleting", wantCreate: "True/", wantDelete: "Unknown/Deleting",
			wantWait: "the Job that removes",
		},
		"the Job runs and already removed the machine from the state": {
			snapshot: with(removeIntended, func(s *machinejob.Snapshot) {
				removeJob(s, 1, machinejob.PhaseRunning, "")
				s.State.Holds = false
			}),
			wantReady: "False/Deleting", wantCreate: "True/", wantDelete: "Unknown/Deleting",
			wantWait: "the Job that removes",
		},
		"the Job succeeded": {
			snapshot: with(removeIntended, func(s *machinejob.Snapshot) {
				removeJob(s, 1, machinejob.PhaseSucceeded, "")
			}),
			wantActions: []string{"Release"}, wantReady: "False/Deleting", wantCreate: "True/",
			wantDelete: "Unknown/Deleting",
		},
		"the Job was killed after it removed the machine": {
			snapshot: with(removeIntended, func(s *machinejob.Snapshot) {
				removeJob(s, 1, machinejob.PhaseFailed, "exit status 1")
				s.State.Holds = false
			}),
			wantActions: []string{"Release"}, wantReady: "False/Deleting", wantCreate: "True/",
			wantDelete: "Unknown/Deleting",
		},
		"the Job failed": {
			snapshot: with(removeIntended, func(s *machinejob.Snapshot) {
				removeJob(s, 1, machinejob.PhaseFailed, "forbidden")
			}),
			wantReady: "False/DeleteError", wantCreate: "True/", wantDelete: "False/DeleteError",
			wantFailure: "DeleteError",
			wantWait:    "another attempt", wantAfter: time.Minute,
		},
		"another attempt after the delay": {
			snapshot: with(removeIntended, func(s *machinejob.Snapshot) {
				removeJob(s, 3, machinejob.PhaseFailed, "forbidden")
				s.Now = now.Add(4 * time.Minute)
			}),
			wantActions: []string{"Ensure", "Run machine-provision-remove-4", "DeleteJob machine-provision-remove-3"},
			wantReady:   "False/Deleting", wantCreate: "True/", wantDelete: "Unknown/Deleting",
			wantWait: "the Job that removes",
		},
		"no delay is longer than an hour": {
			snapshot: with(removeIntended, func(s *machinejob.Snapshot) {
				removeJob(s, 30, machinejob.PhaseFailed, "forbidden")
				s.Now = now.Add(time.Hour)
			}),
			wantActions: []string{"Ensure", "Run machine-provision-remove-31", "DeleteJob machine-provision-remove-30"},
			wantReady:   "False/Deleting", wantCreate: "True/", wantDelete: "Unknown/Deleting",
			wantWait: "the Job that removes",
		},
		"during the delay, it checks whether the credential changed": {
			snapshot: with(removeIntended, func(s *machinejob.Snapshot) {
				removeJob(s, 30, machinejob.PhaseFailed, "forbidden")
				s.Now = now.Add(30 * time.Minute)
				s.Given = machinejob.Environment(s.Driver.Name, s.Settings.Proxy, s.Credential)
			}),
			wantReady: "False/DeleteError", wantCreate: "True/", wantDelete: "False/DeleteError",
			wantFailure: "DeleteError", wantWait: "another attempt", wantAfter: time.Minute,
		},
		"a new credential ends the delay": {
			snapshot: with(removeIntended, func(s *machinejob.Snapshot) {
				removeJob(s, 30, machinejob.PhaseFailed, "forbidden")
				s.Now, s.Given = now.Add(time.Minute), map[string][]byte{"SIM_TOKEN": []byte("former")}
			}),
			wantActions: []string{"Ensure", "Run machine-provision-remove-31", "DeleteJob machine-provision-remove-30"},
			wantReady:   "False/Deleting", wantCreate: "True/", wantDelete: "Unknown/Deleting",
			wantWait: "the Job that removes",
		},
		"a deleted Job proves nothing": {
			snapshot: with(removeIntended, func(s *machinejob.Snapshot) {
				removeJob(s, 1, machinejob.PhaseFailed, "forbidden")
				s.Machine.Status = machinejob.Decide(*s).Status
				s.Removes = nil
			}),
			wantActions: []string{"Ensure", "Run machine-provision-remove-1"}, wantFailure: "DeleteError",
			wantReady: "False/DeleteError", wantCreate: "True/", wantDelete: "Unknown/Deleting",
			wantWait: "the Job that removes",
		},
		"forced": {
			snapshot: with(running, func(s *machinejob.Snapshot) {
				*s = deleting(*s)
				s.Machine.Forced = true
			}), wantActions: []string{"Release"},
			wantReady: "False/Creating", wantCreate: "Unknown/Creating",
		},
	})
}

func TestDecide_RemovalUsesTheOriginalDriver(t *testing.T) {
	d := machinejob.Decide(removeIntended())
	args := d.Actions[0].Objects.Job.Spec.Template.Spec.Containers[0].Args
	for _, want := range []string{"--driver-download-url=https://example.org/docker-machine-driver-sim",
		"--driver-hash=" + strings.Repeat("ab", 32)} {
		if !slices.Contains(args, want) {
			t.Errorf("arguments %q must contain %s from the status, because the NodeDriver is deleted", args, want)
		}
	}
}

func TestDecide_ReleaseAsksTheServer(t *testing.T) {
	d := machinejob.Decide(deleting(failed()))
	if got := d.Actions[0].StateSecret; got != "demo-pool-a-7c9fd-x2k4q-machine-state" {
		t.Errorf("releases without a live read of state Secret %q: the cache may be stale", got)
	}
}

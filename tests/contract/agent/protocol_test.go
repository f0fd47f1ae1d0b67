package agent

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

func TestPlan_AppliedAndReported(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.patch(map[string]any{"data": map[string]any{"foreign": []byte("kept")},
		"metadata": map[string]any{"labels": map[string]string{"foreign": "kept"}}})
	m.start() // the Secret has no plan yet
	m.deliver(plan.NodePlan{
		Files: []plan.File{
			{Path: m.path("etc/file"), Content: b64("hello from plan"), Permissions: "0640"},
			{Path: m.path("etc/default"), Content: b64("x")},
			{Path: m.path("dir"), Directory: true, Permissions: "0750"},
		},
		Instructions: []plan.OneTimeInstruction{
			m.shell("env",
				`cat $M/etc/file; echo; echo "$CATTLE_AGENT_ATTEMPT_NUMBER $FOO"; [ "$PWD" = "$CATTLE_AGENT_EXECUTION_PWD" ] && case "$PATH" in *:$PWD) echo path;; esac`),
			{CommonInstruction: plan.CommonInstruction{Name: "silent", Command: "true"}, SaveOutput: true},
			{CommonInstruction: plan.CommonInstruction{Name: "unsaved", Command: "echo", Args: []string{"x"}}},
		},
	})
	s := m.awaitApplied()
	want := map[string][]byte{"env": []byte("hello from plan\n1 \npath\n"), "silent": nil}
	if diff := cmp.Diff(want, s.Output); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	if s.SuccessCount != 1 || s.FailureCount != 0 || s.FailedChecksum != "" || len(s.FailedOutput) != 0 {
		t.Errorf("successes %d, failures %d, failed checksum %q", s.SuccessCount, s.FailureCount, s.FailedChecksum)
	}
	if last, err := time.Parse(time.UnixDate, s.LastApplyTime); err != nil || time.Since(last).Abs() > 24*time.Hour {
		t.Errorf("last-apply-time = %q, %v", s.LastApplyTime, err)
	}
	for name, mode := range map[string]os.FileMode{"etc/file": 0o640, "etc/default": 0o600, "etc": 0o755 | os.ModeDir,
		"dir": 0o750 | os.ModeDir} {
		if info, err := os.Stat(m.path(name)); err != nil || info.Mode() != mode {
			t.Errorf("mode of %s = %v, %v; want %v", name, info.Mode(), err, mode)
		}
	}
	secret := m.secret()
	if string(secret.Data["foreign"]) != "kept" || secret.Labels["foreign"] != "kept" || secret.Type != secretType {
		t.Errorf("labels of other writers are lost: %v", secret.Labels)
	}
	for _, key := range []string{nodeplan.KeyAppliedPeriodicOutput, nodeplan.KeyProbeStatuses} {
		if len(secret.Data[key]) == 0 {
			t.Errorf("key %s must always exist", key)
		}
	}
	history, err := filepath.Glob(m.path("applied/*-applied.plan"))
	if err != nil || len(history) != 1 {
		t.Errorf("applied plans on the node: %v, %v", history, err)
	}
}

func TestPlan_IdleWritesNothing(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.deliver(m.run("a", "true"))
	m.start()
	m.awaitApplied()
	m.pause(time.Second)
	version := m.secret().ResourceVersion
	m.never("an idle agent writes the Secret", 12*time.Second, func() bool {
		return m.secret().ResourceVersion != version
	})
}

func TestPlan_DeletesFiles(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	for _, name := range []string{"file", "dir/sub/file"} {
		m.must(os.MkdirAll(filepath.Dir(m.path(name)), 0o700))
		m.must(os.WriteFile(m.path(name), nil, 0o600))
	}
	m.deliver(plan.NodePlan{Files: []plan.File{
		{Path: m.path("file"), Action: plan.FileActionDelete},
		{Path: m.path("dir"), Directory: true, Action: plan.FileActionDelete},
		{Path: m.path("not-there"), Action: plan.FileActionDelete},
	}})
	m.start()
	m.awaitApplied()
	for _, name := range []string{"file", "dir"} {
		if _, err := os.Stat(m.path(name)); !os.IsNotExist(err) {
			t.Errorf("%s still exists: %v", name, err)
		}
	}
}

func TestPlan_NextPlanKeepsFormerOutput(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	m.deliver(m.run("first", "echo one"))
	m.awaitApplied()
	m.deliver(m.run("second", "echo two"))
	s := m.awaitApplied()
	if diff := cmp.Diff(map[string][]byte{"first": []byte("one\n"), "second": []byte("two\n")}, s.Output); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestPlan_FailureStopsAndIsRetriedWithinLimits(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	p := plan.NodePlan{Instructions: []plan.OneTimeInstruction{
		m.shell("count", `echo $CATTLE_AGENT_ATTEMPT_NUMBER >> $M/attempts`), m.shell("fail", "echo why; exit 7"),
		m.shell("after", "touch $M/after"),
	}}
	m.deliver(p, nodeplan.KeyMaxFailures, "2", nodeplan.KeyFailureThreshold, "2")
	m.start()
	first := m.await("the first failure", soon, func(s nodeplan.State) bool { return s.FailureCount == 1 })
	if first.Failed || first.FailedChecksum != first.Checksum || string(first.FailedOutput["fail"]) != "why\n" ||
		first.AppliedChecksum == first.Checksum {
		t.Errorf("after the first failure: %+v", first)
	}
	second := m.await("the second failure", 60*time.Second, func(s nodeplan.State) bool { return s.FailureCount == 2 })
	if !second.Failed {
		t.Error("the server does not see the plan as failed")
	}
	m.never("a third attempt", 35*time.Second, func() bool { return m.lines("attempts") > 2 })
	if data, err := os.ReadFile(m.path("attempts")); err != nil || string(data) != "1\n2\n" {
		t.Errorf("attempts = %q, %v", data, err)
	}
	if _, err := os.Stat(m.path("after")); err == nil {
		t.Error("an instruction ran after the failed one")
	}
	m.deliver(m.run("fixed", "true"))
	s := m.awaitApplied()
	if s.FailedChecksum != "" || s.FailureCount != 0 || len(s.FailedOutput) != 0 || s.Failed {
		t.Errorf("the record of the failure still exists: %+v", s)
	}
}

func TestPlan_RestartKeepsWhatWasApplied(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.deliver(m.run("a", "echo x >> $M/runs"))
	m.start()
	m.awaitApplied()
	m.stop(syscall.SIGTERM)
	m.start()
	m.deliver(m.run("b", "echo x >> $M/other"))
	m.awaitApplied()
	if ours() && m.lines("runs") != 1 {
		t.Errorf("the plan ran %d times", m.lines("runs"))
	}
	m.stop(syscall.SIGTERM)
	version := m.secret().ResourceVersion
	m.start()
	if ours() {
		m.never("a restart repeats the plan", 8*time.Second, func() bool {
			return m.lines("other") != 1 || m.secret().ResourceVersion != version
		})
	}
}

func TestPlan_NewDiskRunsThePlanAgain(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.deliver(m.run("a", "echo x >> $M/runs"))
	m.start()
	m.awaitApplied()
	m.stop(syscall.SIGTERM)
	m.must(os.RemoveAll(m.path("applied")))
	m.start()
	m.await("the plan has run again", soon, func(s nodeplan.State) bool { return s.SuccessCount == 2 })
}

func TestPlan_KilledInTheMiddle(t *testing.T) {
	for name, state := range map[string]string{"checksum mode": "", "state mode": "pending"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			m.deliver(m.run("a",
				`[ -e $M/once ] || { touch $M/once; echo $$ > $M/pid; echo start >> $M/runs; sleep 300; }; echo end >> $M/runs`), nodeplan.KeyPlanState, state)
			m.start()
			pid := strings.TrimSpace(m.awaitFile("pid"))
			m.stop(syscall.SIGKILL)
			if s := m.state(); s.AppliedChecksum == s.Checksum {
				t.Error("an unfinished plan is reported as applied")
			}
			m.start()
			m.awaitApplied()
			if state != "" {
				m.await("the state is succeeded", soon, func(s nodeplan.State) bool {
					return s.Phase == nodeplan.PhaseSucceeded
				})
			}
			if ours() && alive(pid) {
				t.Error("a process of the killed agent still runs during the second run")
			}
			if alive(pid) {
				m.must(exec.Command("kill", "-9", pid).Run())
			}
		})
	}
}

func TestPlan_TermEndsTheInstructionAndReportsNothing(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.deliver(m.run("a", `touch $M/started; [ -e $M/go ] || sleep 300; echo x >> $M/runs`))
	m.start()
	m.awaitFile("started")
	m.stop(syscall.SIGTERM)
	s := m.state()
	if ours() && (s.FailureCount != 0 || s.AppliedChecksum != "") {
		t.Errorf("an interrupted plan was reported: %+v", s)
	}
	m.must(os.WriteFile(m.path("go"), nil, 0o600))
	m.start()
	m.await("the plan is applied after the restart", 60*time.Second, func(s nodeplan.State) bool {
		return s.AppliedChecksum == s.Checksum
	})
}

func TestState_SuccessRedeliveryAndRestart(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.deliver(m.run("a", "echo x >> $M/runs"), nodeplan.KeyPlanState, "pending")
	m.start()
	succeeded := func(revision int) func(nodeplan.State) bool {
		return func(s nodeplan.State) bool { return s.Phase == nodeplan.PhaseSucceeded && s.Revision == revision }
	}
	m.await("the first delivery succeeds", soon, succeeded(1))
	m.patch(map[string]any{"data": map[string]any{nodeplan.KeyPlanState: []byte("pending")}})
	s := m.await("a second delivery of the same bytes succeeds", soon, succeeded(2))
	if m.lines("runs") != 2 || !s.InSync || s.Failed {
		t.Errorf("%d runs, in sync %v", m.lines("runs"), s.InSync)
	}
	m.stop(syscall.SIGTERM)
	m.start()
	m.never("a finished plan runs after a restart", 8*time.Second, func() bool { return m.lines("runs") != 2 })
}

func TestState_FailureIsFinal(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.deliver(m.run("a", "echo x >> $M/runs; exit 1"), nodeplan.KeyPlanState, "pending", nodeplan.KeyMaxFailures, "3")
	m.start()
	m.await("the plan fails", soon, func(s nodeplan.State) bool { return s.Phase == nodeplan.PhaseFailed })
	m.never("a second attempt", 40*time.Second, func() bool { return m.lines("runs") != 1 })
	s := m.state()
	if !s.Failed || s.InSync || s.Revision != 1 {
		t.Errorf("failed %v, in sync %v, revision %d", s.Failed, s.InSync, s.Revision)
	}
	if ours() && (s.FailedChecksum != s.Checksum || s.FailureCount != 1 || s.AppliedChecksum == s.Checksum) {
		t.Errorf("the record of the failure is lost: %+v", s)
	}
}

func TestPlan_UnreadablePlanIsNotTheEnd(t *testing.T) {
	tests := map[string]string{
		"not JSON":      `{"files":"hunter2"`,
		"wrong type":    `{"instructions":"hunter2"}`,
		"not base64":    `{"files":[{"path":"/tmp/drover-agent-suite-x","content":"hunter2!"}]}`,
		"permissions":   `{"files":[{"path":"/tmp/drover-agent-suite-x","content":"aA==","permissions":"rw"}]}`,
		"no such place": `{"files":[{"path":"/proc/drover/x","content":"aA=="}]}`,
	}
	for name, raw := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			m.deliverRaw([]byte(raw))
			m.start()
			if ours() {
				secret := m.awaitFailure()
				if len(secret) == 0 || strings.Contains(secret, "hunter2") {
					t.Errorf("report = %q", secret)
				}
			} else {
				m.never("a broken plan counts as applied", 5*time.Second, func() bool {
					data := m.secret().Data
					return len(data[nodeplan.KeyAppliedChecksum]) > 0
				})
			}
			m.deliver(m.run("fixed", "true"))
			m.awaitApplied()
			if ours() && m.ended() != 0 {
				t.Errorf("the agent ended %d times", m.ended())
			}
		})
	}
}

// awaitFailure waits for a reported failure of a plan, which may be unreadable. It returns the error text of Drover's
// agent.
func (m *machine) awaitFailure() string {
	m.t.Helper()
	deadline := time.Now().Add(soon)
	for time.Now().Before(deadline) {
		data := m.secret().Data
		if string(data[nodeplan.KeyFailureCount]) == "1" {
			output, err := nodeplan.DecodeOutput(nodeplan.KeyFailedOutput, data[nodeplan.KeyFailedOutput])
			m.must(err)
			return string(output[nodeplan.OutputAgentError])
		}
		m.pause(50 * time.Millisecond)
	}
	m.t.Fatal("waited for the report of a failure")
	return ""
}

func TestConflict_SecretTouchedWhileThePlanRuns(t *testing.T) {
	for name, script := range map[string]string{"success": "exit 0", "failure": "exit 1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			m.deliver(m.run("a", "touch $M/started; while [ ! -e $M/go ]; do sleep 0.1; done; "+script),
				nodeplan.KeyMaxFailures, "1")
			m.start()
			m.awaitFile("started")
			m.patch(map[string]any{"metadata": map[string]any{"annotations": map[string]string{"touched": "yes"}}})
			m.must(os.WriteFile(m.path("go"), nil, 0o600))
			s := m.await("the result is reported", 60*time.Second, func(s nodeplan.State) bool {
				return s.InSync || s.Failed
			})
			if s.InSync != (name == "success") {
				t.Errorf("in sync %v, failed %v", s.InSync, s.Failed)
			}
			if m.secret().Annotations["touched"] != "yes" {
				t.Error("the other writer's change was lost")
			}
			if ours() && m.ended() != 0 {
				t.Errorf("the agent ended %d times", m.ended())
			}
		})
	}
}

func TestConflict_PlanReplacedWhileItRuns(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.deliver(m.run("a", "touch $M/started; while [ ! -e $M/go ]; do sleep 0.1; done"))
	m.start()
	m.awaitFile("started")
	m.deliver(m.run("b", "echo new"))
	m.must(os.WriteFile(m.path("go"), nil, 0o600))
	s := m.awaitApplied()
	if string(s.Output["b"]) != "new\n" {
		t.Errorf("output = %q", s.Output)
	}
	if ours() && m.ended() != 0 {
		t.Errorf("the agent ended %d times", m.ended())
	}
}

func TestInterlock_NothingStartsWhileAnInstallScriptWaits(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.must(os.WriteFile(m.path("interlock/restart-pending"), nil, 0o600))
	m.must(os.WriteFile(m.path("interlock/applyinator-active"), nil, 0o600)) // left by an agent that was killed
	m.deliver(m.run("a", "ls $M/interlock; true"))
	m.start()
	m.never("a plan runs although a restart of the agent is pending", 7*time.Second, func() bool {
		return m.state().InSync
	})
	m.must(os.Remove(m.path("interlock/restart-pending")))
	m.stop(syscall.SIGTERM) // as the install script does
	m.start()
	s := m.awaitApplied()
	if string(s.Output["a"]) != "applyinator-active\n" {
		t.Errorf("the marks during the plan are %q", s.Output["a"])
	}
	m.await("the marks are deleted", soon, func(nodeplan.State) bool {
		left, err := os.ReadDir(m.path("interlock"))
		return err == nil && len(left) == 0
	})
}

func TestOutput_LongLinesAndStandardError(t *testing.T) {
	t.Parallel()
	if !ours() {
		t.Skip("other agents lose standard error and long lines")
	}
	m := newMachine(t)
	m.deliver(m.run("a", "echo out; echo err >&2; head -c 70000 /dev/zero | tr '\\0' x; echo; echo end"))
	m.start()
	s := m.awaitApplied()
	if want := "out\nerr\n" + strings.Repeat("x", 70000) + "\nend\n"; string(s.Output["a"]) != want {
		t.Errorf("%d bytes of output, want %d", len(s.Output["a"]), len(want))
	}
}

package fakeagent

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

var (
	epoch     = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	quick     = timing{probe: 50 * time.Millisecond, retry: time.Second}
	errBroken = errors.New("exit status 1")
)

// stage is a machine for tests of single passes.
type stage struct {
	failing         map[string]error
	unhealthy       bool
	ran             []string
	periodicFailure error
}

func (s *stage) host() host {
	return host{
		run: func(i plan.OneTimeInstruction, attempt int) ([]byte, error) {
			s.ran = append(s.ran, i.Name+" "+strconv.Itoa(attempt))
			return []byte("output of " + i.Name + "\n"), s.failing[i.Name]
		},
		periodic: func(i plan.PeriodicInstruction) ([]byte, error) {
			s.ran = append(s.ran, "periodic "+i.Name)
			return []byte("now"), s.periodicFailure
		},
		healthy: func() bool { return !s.unhealthy },
	}
}

func delivered(t *testing.T, p plan.NodePlan, maxFailures int) map[string][]byte {
	t.Helper()
	encoded, err := nodeplan.Encode(p)
	if err != nil {
		t.Fatal(err)
	}
	data, err := nodeplan.Deliver(nil, nodeplan.Delivery{Plan: encoded, MaxFailures: maxFailures,
		FailureThreshold: maxFailures})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func install(stamp string, names ...string) plan.NodePlan {
	p := plan.NodePlan{
		Probes: map[string]plan.Probe{"kubelet": {SuccessThreshold: 2}},
		PeriodicInstructions: []plan.PeriodicInstruction{{CommonInstruction: plan.CommonInstruction{Name: "look"},
			PeriodSeconds: 60}},
	}
	for _, name := range names {
		p.Instructions = append(p.Instructions, plan.OneTimeInstruction{
			SaveOutput: true, CommonInstruction: plan.CommonInstruction{Name: name,
				Env: []string{"RESTART_STAMP=" + stamp}},
		})
	}
	return p
}

// parsed returns the Secret as the server reads it.
func parsed(t *testing.T, data map[string][]byte) nodeplan.State {
	t.Helper()
	state, err := nodeplan.Parse("test/plan", data)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func TestPass_AppliesThenReportsProbes(t *testing.T) {
	s := &stage{}
	data, mem, again := pass(delivered(t, install("1", "install", "more"), 3), memory{}, s.host(), quick, epoch)
	state := parsed(t, data)
	if !state.InSync || state.Healthy || state.SuccessCount != 1 || state.FailureCount != 0 {
		t.Errorf("want a plan in sync that is not healthy yet, got %+v", state)
	}
	if diff := cmp.Diff(map[string][]byte{"install": []byte("output of install\n"), "more": []byte("output of more\n")},
		state.Output); diff != "" {
		t.Errorf("output differs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"install 1", "more 1", "periodic look"}, s.ran); diff != "" {
		t.Errorf("commands differ (-want +got):\n%s", diff)
	}
	if again != quick.probe {
		t.Errorf("want another check after %s, got %s", quick.probe, again)
	}

	data, mem, again = pass(data, mem, s.host(), quick, epoch.Add(again))
	state = parsed(t, data)
	want := map[string]plan.ProbeStatus{"kubelet": {Healthy: true, SuccessCount: 2}}
	if diff := cmp.Diff(want, state.ProbeStatuses); diff != "" || !state.Healthy || again != 0 {
		t.Errorf("probes differ (-want +got):\n%s, healthy %t, again %s", diff, state.Healthy, again)
	}
	if mem.applied != 1 || mem.installs != 1 {
		t.Errorf("want one application and one installation, got %+v", mem)
	}
}

func TestPass_SettledPlanChangesNothing(t *testing.T) {
	s := &stage{}
	data, mem, _ := pass(delivered(t, install("1", "install"), 3), memory{}, s.host(), quick, epoch)
	data, mem, _ = pass(data, mem, s.host(), quick, epoch.Add(time.Second))
	s.ran = nil
	after, _, again := pass(data, mem, s.host(), quick, epoch.Add(2*time.Second))
	if diff := cmp.Diff(data, after); diff != "" || again != 0 || len(s.ran) != 0 {
		t.Errorf("want no change, got (-before +after):\n%s, again %s, ran %v", diff, again, s.ran)
	}
	pass(data, mem, s.host(), quick, epoch.Add(61*time.Second))
	if diff := cmp.Diff([]string{"periodic look"}, s.ran); diff != "" {
		t.Errorf("after its period the periodic instruction runs (-want +got):\n%s", diff)
	}
}

func TestPass_FailingPlanIsTriedUpToItsLimit(t *testing.T) {
	s := &stage{failing: map[string]error{"install": errBroken}}
	data, mem, again := pass(delivered(t, install("1", "install", "never"), 2), memory{}, s.host(), quick, epoch)
	state := parsed(t, data)
	if state.InSync || state.Failed || state.FailureCount != 1 || state.FailedChecksum != state.Checksum ||
		again != quick.retry {
		t.Errorf("want one failure and another attempt, got %+v, again %s", state, again)
	}
	if got := string(state.FailedOutput["install"]); got != "output of install\nexit status 1" {
		t.Errorf("want the failed output, got %q", got)
	}
	early, _, wait := pass(data, mem, s.host(), quick, epoch.Add(400*time.Millisecond))
	if diff := cmp.Diff(data, early); diff != "" || wait != 600*time.Millisecond {
		t.Errorf("want no attempt before the time, got %s (-before +after):\n%s", wait, diff)
	}
	data, mem, _ = pass(data, mem, s.host(), quick, epoch.Add(quick.retry))
	if state = parsed(t, data); !state.Failed || state.FailureCount != 2 {
		t.Errorf("want a final failure of the plan, got %+v", state)
	}
	last, _, wait := pass(data, mem, s.host(), quick, epoch.Add(time.Hour))
	if diff := cmp.Diff(data, last); diff != "" || wait != 0 {
		t.Errorf("want no attempt beyond the limit, got %s (-before +after):\n%s", wait, diff)
	}
	if diff := cmp.Diff([]string{"install 1", "periodic look", "install 2"}, s.ran); diff != "" {
		t.Errorf("commands differ (-want +got):\n%s", diff)
	}
}

// The attempt number continues across a new plan, as in real agents (docs/wire/plan.md#one-pass-of-the-agent).
func TestPass_NewPlanRunsAtOnce(t *testing.T) {
	s := &stage{failing: map[string]error{"install": errBroken}}
	data, mem, _ := pass(delivered(t, install("1", "install"), 1), memory{}, s.host(), quick, epoch)
	encoded, err := nodeplan.Encode(install("2", "install"))
	if err != nil {
		t.Fatal(err)
	}
	data, err = nodeplan.Deliver(data, nodeplan.Delivery{Plan: encoded, MaxFailures: 1, FailureThreshold: 1})
	if err != nil {
		t.Fatal(err)
	}
	s.failing = nil
	data, mem, _ = pass(data, mem, s.host(), quick, epoch)
	state := parsed(t, data)
	if !state.InSync || state.Failed || state.FailureCount != 0 || state.FailedChecksum != "" {
		t.Errorf("want the new plan applied and the failure forgotten, got %+v", state)
	}
	if s.ran[len(s.ran)-1] != "install 2" || mem.applied != 1 || mem.installs != 1 {
		t.Errorf("want a second attempt, got %v, %+v", s.ran, mem)
	}
}

func TestPass_CountsInstallationsByStamp(t *testing.T) {
	s := &stage{}
	data, mem := map[string][]byte(nil), memory{}
	for _, stamp := range []string{"1", "1", "2", "2"} {
		p := install(stamp, "install")
		p.Files = []plan.File{{Path: "/a", Content: strconv.Itoa(mem.applied)}}
		encoded, err := nodeplan.Encode(p)
		if err != nil {
			t.Fatal(err)
		}
		if data, err = nodeplan.Deliver(data, nodeplan.Delivery{Plan: encoded}); err != nil {
			t.Fatal(err)
		}
		data, mem, _ = pass(data, mem, s.host(), quick, epoch)
	}
	if mem.applied != 4 || mem.installs != 2 {
		t.Errorf("want 4 applications and 2 installations, got %+v", mem)
	}
}

func TestPass_UnreadablePlanDoesNothing(t *testing.T) {
	for name, data := range map[string]map[string][]byte{
		"no plan yet":             {},
		"a plan that is not JSON": {nodeplan.KeyPlan: []byte("{")},
		"an empty plan text":      {nodeplan.KeyPlan: nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := &stage{}
			after, mem, again := pass(data, memory{}, s.host(), quick, epoch)
			if diff := cmp.Diff(data, after); diff != "" || again != 0 || mem.applied != 0 || len(s.ran) != 0 {
				t.Errorf("want nothing, got again %s, %+v, ran %v (-before +after):\n%s", again, mem, s.ran, diff)
			}
		})
	}
}

func TestPass_FailingPeriodicInstructionIsRepeatedAndHarmless(t *testing.T) {
	s := &stage{periodicFailure: errBroken}
	data, mem, _ := pass(delivered(t, install("1", "install"), 3), memory{}, s.host(), quick, epoch)
	state := parsed(t, data)
	if !state.InSync || state.PeriodicOutput["look"].Failures != 1 || state.PeriodicOutput["look"].ExitCode != 1 {
		t.Errorf("want the plan in sync and one failure of the periodic instruction, got %+v", state)
	}
	s.periodicFailure = nil
	data, _, _ = pass(data, mem, s.host(), quick, epoch.Add(quick.probe))
	if got := parsed(t, data).PeriodicOutput["look"]; got.ExitCode != 0 || got.Failures != 0 ||
		string(got.Stdout) != "now" {
		t.Errorf("want a success, got %+v", got)
	}
}

func TestPass_UnhealthyHostIsCheckedAgain(t *testing.T) {
	s := &stage{unhealthy: true}
	data, mem, _ := pass(delivered(t, install("1", "install"), 3), memory{}, s.host(), quick, epoch)
	data, mem, again := pass(data, mem, s.host(), quick, epoch.Add(time.Minute))
	if state := parsed(t, data); state.Healthy || again != quick.probe {
		t.Errorf("want unhealthy probes and another check, got %+v, again %s", state.ProbeStatuses, again)
	}
	s.unhealthy = false
	data, _, again = pass(data, mem, s.host(), quick, epoch.Add(2*time.Minute))
	if state := parsed(t, data); !state.Healthy || again != 0 {
		t.Errorf("want healthy probes, got %+v, again %s", state.ProbeStatuses, again)
	}
}

func TestPass_ReportsWhichCommandFailed(t *testing.T) {
	s := &stage{failing: map[string]error{"install": &ExitError{Code: 7, Output: "no route"}}}
	data, _, _ := pass(delivered(t, install("1", "install", "never"), 2), memory{}, s.host(), quick, epoch)
	state := parsed(t, data)
	failure, ok := nodeplan.FailureOf(state.FailedOutput)
	if want := (nodeplan.Failure{Instruction: "install", ExitCode: 7}); !ok || failure != want {
		t.Errorf("want %+v, got %+v, %t", want, failure, ok)
	}
	if got := string(state.FailedOutput["install"]); got != "output of install\nno route" {
		t.Errorf("want the failed output, got %q", got)
	}
}

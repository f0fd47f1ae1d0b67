package render_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

func TestAgentUpgrade_Succeeds(t *testing.T) {
	t.Parallel()
	h := newUpgradeHost(t, playedProgram("new", reports))
	before := h.inventory()
	id := h.deliver().ID
	h.start()
	unit := h.read("units/rancher-system-agent-upgrade.service")
	if !strings.Contains(unit, "ExecStart=/bin/sh "+h.root+"/var/upgrade/upgrade.sh run") ||
		!strings.Contains(h.read("systemctl.log"), "start --no-block rancher-system-agent-upgrade\n") {
		t.Errorf("unit:\n%s\nsystemctl:\n%s", unit, h.read("systemctl.log"))
	}
	h.serve()
	h.check(before, id, "succeeded")
	if n := strings.Count(h.read("systemctl.log"), "restart rancher-system-agent\n"); n != 1 {
		t.Errorf("%d restarts", n)
	}
	// The plan runs again, for example by an agent that repeats plans.
	h.write("systemctl.log", "", 0o600)
	if h.start(); h.read("systemctl.log") != "" {
		t.Errorf("a request with a result starts again: %s", h.read("systemctl.log"))
	}
	// The same agent by another request needs no restart.
	h.pin.Command = "again"
	id = h.deliver().ID
	h.start()
	h.serve()
	h.check(before, id, "succeeded")
	if strings.Contains(h.read("systemctl.log"), "restart") {
		t.Error("the same agent is restarted")
	}
}

// Servers that are upgraded one after the other do not all have the same agent.
func TestAgentUpgrade_AsksAgainForAnotherProgram(t *testing.T) {
	t.Parallel()
	h := newUpgradeHost(t, playedProgram("new", reports))
	h.stale = 2
	before := h.inventory()
	id := h.deliver().ID
	h.start()
	h.serve()
	h.check(before, id, "succeeded")
}

// An agent that does not work is replaced by the former one.
func TestAgentUpgrade_GoesBack(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		report, want string
		change       func(*upgradeHost)
		isTouched    bool
	}{
		"no report": {report: silent, want: "failed: the new agent did not report within", isTouched: true},
		"a crash":   {report: crashes, want: "failed: the new agent ended 9 times", isTouched: true},
		"a wrong sum": {
			change: func(h *upgradeHost) { h.pin.Agent.Sums["amd64"] = "0" }, want: "failed: the agent at https://",
		},
		"no such agent": {
			change: func(h *upgradeHost) { delete(h.pin.Agent.Sums, "amd64") },
			want:   "failed: the server has no agent for machines of type amd64",
		},
		"no download": {change: func(h *upgradeHost) { delete(h.assets, "/assets/rancher-system-agent-amd64") },
			want: "failed: https://"},
		"another authority": {change: func(h *upgradeHost) { h.assets["/cacerts"] += "x" },
			want: "failed: the authority of https://"},
		"a full disk": {change: func(h *upgradeHost) {
			h.write("stubs/df", "#!/bin/sh\nprintf 'x\\n/dev/x 1 1 2048 1%% /\\n'\n", 0o755)
		}, want: "failed: "},
		"a program for another machine": {change: func(h *upgradeHost) {
			program := "\x7fELF nonsense"
			h.assets["/assets/rancher-system-agent-amd64"] = program
			h.pin.Agent.Sums["amd64"] = fmt.Sprintf("%x", sha256.Sum256([]byte(program)))
		}, want: "failed: the new agent does not run on this machine"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newUpgradeHost(t, playedProgram("new", tc.report))
			if tc.change != nil {
				tc.change(h)
			}
			before := h.inventory()
			id := h.deliver().ID
			h.start()
			out := h.serve()
			h.check(before, id, tc.want)
			if restarted := strings.Contains(h.read("systemctl.log"), "restart"); restarted != tc.isTouched {
				t.Errorf("the agent was restarted: %v\n%s", restarted, out)
			}
		})
	}
}

// stride is how many commands lie between two kills. FULL=1 kills before every command.
func stride() int {
	if os.Getenv("FULL") == "1" {
		return 1
	}
	return 7
}

// The service may be killed before every command. It comes to the same end when it runs again.
func TestAgentUpgrade_KilledAtEachStep(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ report, want string }{
		"an agent that works":         {reports, "succeeded"},
		"an agent that does not work": {silent, "failed: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for step := 1; ; step += stride() {
				h := newUpgradeHost(t, playedProgram("new", tc.report))
				before := h.inventory()
				id := h.deliver().ID
				h.start()
				_, err := h.script(step, h.root+"/var/upgrade/upgrade.sh", "run", h.root+"/var/upgrade")
				if err != nil {
					h.serve()
				}
				h.check(before, id, tc.want)
				if t.Failed() {
					t.Fatalf("killed before command %d", step)
				}
				if err == nil {
					if step < 20 {
						t.Errorf("only %d steps", step)
					}
					return
				}
			}
		})
	}
}

// A newer request may come at any step of an older one.
func TestAgentUpgrade_NewerRequest(t *testing.T) {
	t.Parallel()
	for step := 3; ; step += stride() {
		h := newUpgradeHost(t, playedProgram("new", silent))
		before := h.inventory()
		h.start()
		_, err := h.script(step, h.root+"/var/upgrade/upgrade.sh", "run", h.root+"/var/upgrade")
		program := playedProgram("new", reports)
		h.assets["/assets/rancher-system-agent-amd64"] = program
		h.pin.Agent.Sums["amd64"] = fmt.Sprintf("%x", sha256.Sum256([]byte(program)))
		id := h.deliver().ID
		h.start()
		h.serve()
		h.check(before, id, "succeeded")
		if t.Failed() {
			t.Fatalf("killed before command %d", step)
		}
		if err == nil {
			return
		}
	}
}

// Variables that the cluster no longer has are removed. Without another program the connection stays. An agent that
// cannot tell that it reported has to keep running.
func TestAgentUpgrade_EnvironmentOnly(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		report, want string
		tells        bool
	}{
		"an agent that tells":                 {reports, "succeeded", true},
		"an agent that tells and is cut off":  {silent, "failed: the new agent did not report", true},
		"an agent that cannot tell":           {silent, "succeeded", false},
		"an agent that cannot tell and fails": {crashes, "failed: the new agent ended", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newUpgradeHost(t, "")
			h.write("usr/bin/rancher-system-agent", playedProgram("old", tc.report), 0o755)
			h.extra = []string{"AGENT_UPGRADE_TRIES=20"}
			if !tc.tells {
				if err := os.Remove(h.root + "/var/upgrade/reported"); err != nil {
					t.Fatal(err)
				}
			}
			h.pin = render.AgentPin{Environment: true, Names: []string{"GONE", "HTTPS_PROXY"}}
			h.env = []rkev1.EnvVar{{Name: "HTTP_PROXY", Value: "new"}}
			before := h.inventory()
			if tc.want == "succeeded" {
				before["units/rancher-system-agent.env"] = "-rw------- NO_PROXY=kept\n# Cluster: begin\n" +
					"HTTP_PROXY=\"new\"\n# Cluster: end\n"
			}
			step := h.deliver()
			h.start()
			h.serve()
			got := h.inventory()
			if text := got["var/upgrade/result"]; !strings.HasPrefix(text, "-rw------- "+step.ID+" "+tc.want) {
				t.Errorf("result %q, want %q", text, tc.want)
			}
			delete(got, "var/upgrade/result")
			if diff := cmp.Diff(before, got); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if _, sent, _ := strings.Cut(before["units/rancher-system-agent.env"], " "); h.read("running-env") != sent {
				t.Errorf("the agent runs with %q", h.read("running-env"))
			}
		})
	}
}

// The plan that is being applied ends first.
func TestAgentUpgrade_WaitsForThePlan(t *testing.T) {
	t.Parallel()
	h := newUpgradeHost(t, playedProgram("new", reports))
	h.write("var/interlock/applyinator-active", "", 0o600)
	h.write("stubs/sleep", "#!/bin/sh\nn=$(($(cat $ROOT/sleeps 2>/dev/null || echo 0) + 1)); echo $n >$ROOT/sleeps\n"+
		"[ -e $ROOT/var/interlock/restart-pending ] || echo unheld >>$ROOT/problems\n"+
		"[ ! -s $ROOT/running-env ] || echo early >>$ROOT/problems\n"+
		"[ $n != 3 ] || rm $ROOT/var/interlock/applyinator-active\n", 0o755)
	h.start()
	h.serve()
	if h.read("problems") != "" || h.read("running") != "new\n" || h.read("sleeps") != "4\n" {
		t.Errorf("problems %q, %q runs after %s sleeps", h.read("problems"), h.read("running"), h.read("sleeps"))
	}
}

// The new agent reports after the plan that it got meanwhile, however long that takes.
func TestAgentUpgrade_WaitsForThePlanOfTheNewAgent(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ active, want string }{
		"it applies a plan": {"touch", "succeeded"},
		"it does nothing":   {":", "failed: the new agent did not report within"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newUpgradeHost(t, playedProgram("new", tc.active+` "$ROOT/var/interlock/applyinator-active"`))
			h.write("var/interlock/.keep", "", 0o600)
			h.write("stubs/sleep", `#!/bin/sh
[ "$(cat "$ROOT/running")" = new ] || exit 0
n=$(($(cat "$ROOT/sleeps" 2>/dev/null || echo 0) + 1)); echo $n >"$ROOT/sleeps"
[ $n != 9 ] || rm -f "$ROOT/var/interlock/applyinator-active"
[ $n != 9 ] || echo "$(cat "$ROOT/pid") new" >"$ROOT/var/upgrade/reported"
`, 0o755)
			before := h.inventory()
			id := h.deliver().ID
			h.start()
			h.serve()
			h.check(before, id, tc.want)
		})
	}
}

// A pin changes neither what a plan restarts nor anything before its step. Without a pin there is no step.
func TestPlan_AgentStep(t *testing.T) {
	t.Parallel()
	pin := render.AgentPin{Command: "v2", Agent: &render.Agent{Version: "v2", Server: "https://drover.example.com/",
		CAChecksum: "ca", Sums: map[string]string{"amd64": "1", "arm64": "2"}}}
	env := []rkev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://proxy"}}
	for _, place := range []string{"init", "worker"} {
		in := basicInput(distro.RKE2, place)
		in.ControlPlane.Spec.AgentEnvVars = env
		without := mustPlan(t, in)
		in.Machine.AgentPin = pin.String()
		with := mustPlan(t, in)
		if !render.HasAgentStep(with) || render.HasAgentStep(without) {
			t.Errorf("%s: step %v, without a pin %v", place, render.HasAgentStep(with), render.HasAgentStep(without))
		}
		if render.StampsOf(with) != render.StampsOf(without) {
			t.Errorf("%s: the step changes what restarts", place)
		}
		if diff := cmp.Diff(without.Instructions, render.WithoutAgentStep(with.Instructions)); diff != "" {
			t.Errorf("%s (-without +with):\n%s", place, diff)
		}
		if diff := cmp.Diff(without.Files, with.Files[:len(without.Files)]); diff != "" {
			t.Errorf("%s (-without +with):\n%s", place, diff)
		}
	}
}

// A variable that the cluster no longer has is empty for the installation, because the agent still has it while the
// plan runs. Otherwise the next plan would look different to the installer, and restart Kubernetes.
func TestPlan_RemovedVariables(t *testing.T) {
	t.Parallel()
	in := basicInput(distro.RKE2, "worker")
	in.ControlPlane.Spec.AgentEnvVars = []rkev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://proxy"}}
	in.Machine.AgentPin = render.AgentPin{Environment: true, Names: []string{"HTTPS_PROXY", "NO_PROXY"}}.String()
	p := mustPlan(t, in)
	if got := strings.Join(p.Instructions[0].Env, " "); !strings.Contains(got, " HTTPS_PROXY=http://proxy NO_PROXY= ") {
		t.Errorf("environment of the installation: %s", got)
	}
	if diff := cmp.Diff([]string{"HTTPS_PROXY", "NO_PROXY"}, render.InstalledVariables(p)); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
}

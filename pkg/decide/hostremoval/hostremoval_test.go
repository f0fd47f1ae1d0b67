package hostremoval

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/distro"
)

var now = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

func TestParseAfter(t *testing.T) {
	for value, want := range map[string]time.Duration{"": 0, "24h": 24 * time.Hour, "90m": 90 * time.Minute} {
		if got, err := ParseAfter(value); err != nil || got != want {
			t.Errorf("%q is %s, %v", value, got, err)
		}
	}
	for _, value := range []string{"0s", "-1h", "1 day", "24"} {
		if _, err := ParseAfter(value); err == nil || !strings.Contains(err.Error(), value) {
			t.Errorf("%q: %v", value, err)
		}
	}
}

func TestMissing_Decide(t *testing.T) {
	server := Member{Etcd: true, ControlPlane: true, EtcdServes: true, NodeSeen: true}
	down := Member{Etcd: true, ControlPlane: true}
	leaving := server
	leaving.Deleting = true
	for name, tc := range map[string]struct {
		change func(m *Missing)
		want   bool
		again  time.Duration
	}{
		"a worker": {func(*Missing) {}, true, 0},
		"a worker at the moment": {func(m *Missing) { m.AwaySince = now.Add(-time.Hour) }, true,
			0},
		"not long enough": {
			func(m *Missing) { m.AwaySince = now.Add(-45 * time.Minute) }, false, 15 * time.Minute,
		},
		"hosts are kept":              {func(m *Missing) { m.After = 0 }, false, 0},
		"the node answers":            {func(m *Missing) { m.AwaySince = time.Time{} }, false, 0},
		"it is deleted already":       {func(m *Missing) { m.Deleting = true }, false, 0},
		"the cluster is out of reach": {func(m *Missing) { m.Reachable = false }, false, 0},
		"no server answers":           {func(m *Missing) { m.Others = []Member{down} }, false, recheck},
		"the only server leaves":      {func(m *Missing) { m.Others = []Member{leaving} }, false, recheck},
		"one of three servers": {func(m *Missing) { m.Etcd = true; m.Others = []Member{server, server} }, true,
			0},
		"one of two servers": {func(m *Missing) { m.Etcd = true; m.Others = []Member{server} }, false, recheck},
		"two of three are away": {
			func(m *Missing) { m.Etcd = true; m.Others = []Member{server, down} }, false, recheck,
		},
		"two of five are away": {func(m *Missing) {
			m.Etcd = true
			m.Others = []Member{server, server, server, down}
		}, true, 0},
		"another member leaves": {func(m *Missing) {
			m.Etcd = true
			m.Others = []Member{server, server, server, leaving}
		}, false, recheck},
		"the last member": {
			func(m *Missing) { m.Etcd = true; m.Others = []Member{{ControlPlane: true, NodeSeen: true}} },
			false, recheck},
		"members whose nodes are not seen do not count": {func(m *Missing) {
			m.Etcd = true
			m.Others = []Member{server, {Etcd: true, EtcdServes: true}}
		}, false, recheck},
	} {
		t.Run(name, func(t *testing.T) {
			m := Missing{After: time.Hour, Reachable: true, AwaySince: now.Add(-2 * time.Hour), Now: now,
				Others: []Member{server}}
			tc.change(&m)
			if got, again := m.Decide(); got != tc.want || again != tc.again {
				t.Errorf("missing is %v, again after %s", got, again)
			}
		})
	}
}

func TestCleaning_Decide(t *testing.T) {
	delivered := func(ago time.Duration) func(c *Cleaning) {
		return func(c *Cleaning) { c.Delivered, c.DeliveredAt = true, now.Add(-ago) }
	}
	for name, tc := range map[string]struct {
		change func(c *Cleaning)
		step   Step
		reason string
		after  time.Duration
	}{
		"a host leaves":        {func(*Cleaning) {}, StepDeliver, ReasonCleaning, 0},
		"a cluster is deleted": {func(c *Cleaning) { c.ClusterGoing = true }, StepRelease, "", 0},
		"no plan reaches it":   {func(c *Cleaning) { c.Alone = true }, StepRelease, "", 0},
		"its Machine stays":    {func(c *Cleaning) { c.Held = true }, StepWait, ReasonCleaning, 0},
		"its Machine stays, and it is kept": {func(c *Cleaning) { c.Held, c.Machine = true, "false" }, StepRelease, "",
			0},
		"it has its last plan": {func(c *Cleaning) { delivered(0)(c); c.Held, c.Applied = true, true }, StepConclude,
			ReasonCleaned, 0},
		"it runs Windows":             {func(c *Cleaning) { c.Windows = true }, StepConclude, ReasonNotCleaned, 0},
		"it runs Windows and is kept": {func(c *Cleaning) { c.Windows, c.Machine = true, "false" }, StepRelease, "", 0},
		"it is at work":               {delivered(time.Minute), StepWait, ReasonCleaning, 4 * time.Minute},
		"it was away before": {func(c *Cleaning) {
			delivered(time.Minute)(c)
			c.LostSince = now.Add(-time.Hour)
		}, StepWait, ReasonCleaning, time.Minute},
		"its node falls silent meanwhile": {func(c *Cleaning) {
			delivered(2 * time.Minute)(c)
			c.LostSince = now.Add(-time.Minute)
		}, StepWait, ReasonCleaning, 3 * time.Minute},
		"it is late": {delivered(AnswerTime), StepConclude, ReasonNotCleaned, 0},
		"it is done": {
			func(c *Cleaning) { delivered(0)(c); c.Applied = true }, StepConclude, ReasonCleaned, 0,
		},
		"it failed": {
			func(c *Cleaning) { delivered(0)(c); c.Failed = true }, StepConclude, ReasonNotCleaned, 0,
		},
		"the end is reported": {func(c *Cleaning) { delivered(0)(c); c.Concluded = true }, StepRelease, "", 0},
		"a change of mind is late": {
			func(c *Cleaning) { delivered(0)(c); c.Machine = "false" }, StepWait, ReasonCleaning,
			AnswerTime},
		"the former plan was applied": {func(c *Cleaning) { c.Applied = true }, StepDeliver, ReasonCleaning, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := Cleaning{Home: home(distro.K3s), Now: now}
			tc.change(&c)
			next := c.Decide()
			if next.Step != tc.step || next.Condition.Reason != tc.reason || next.After != tc.after {
				t.Errorf("next is %+v", next)
			}
		})
	}
}

func home(runtime distro.Runtime) Home {
	return Home{Runtime: runtime, Dirs: distro.DirsFor(runtime, rkev1.DataDirectories{})}
}

func TestPlan_SaysWhereTheHostHasItsPrograms(t *testing.T) {
	want := Home{Runtime: distro.K3s, Dirs: distro.Dirs{Data: "/data", Provisioning: "/capr", SystemAgent: "/agent"}}
	last := Plan(want)
	got, known := HomeOf(last)
	if diff := cmp.Diff(want, got); diff != "" || !known || !IsLast(last) {
		t.Errorf("known %v, last %v (-want +got):\n%s", known, IsLast(last), diff)
	}
	if _, known := HomeOf(plan.NodePlan{}); known || IsLast(plan.NodePlan{}) {
		t.Error("an empty plan is the last one of a host")
	}
}

// The scripts run the uninstall scripts that they find, and report what they leave.
func TestCleanScript(t *testing.T) {
	for name, tc := range map[string]struct {
		programs map[string]string // in PATH
		data     string            // in the data directory
		code     int
		want     string
	}{
		"nothing is installed": {},
		"a server": {
			programs: map[string]string{"zz9-uninstall.sh": "echo bye from $ZZ9_DATA_DIR; rm -rf $ZZ9_DATA_DIR"},
			data:     "server", want: "bye from"},
		"a worker": {
			programs: map[string]string{"zz9-agent-uninstall.sh": "echo bye; rm -rf $ZZ9_DATA_DIR"}, data: "agent",
			want: "bye"},
		"the script is missing": {programs: map[string]string{"zz9": ""}, code: 1, want: "zz9-uninstall.sh is not"},
		"the script fails":      {programs: map[string]string{"zz9-uninstall.sh": "exit 7"}, code: 1, want: "failed"},
		"data are left": {
			programs: map[string]string{"zz9-uninstall.sh": ""}, data: "server", code: 1, want: "data are left",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			data, bin, capr := filepath.Join(dir, "data"), filepath.Join(dir, "bin"), filepath.Join(dir, "var", "capr")
			for _, folder := range []string{filepath.Join(data, tc.data), bin, capr} {
				if err := os.MkdirAll(folder, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for program, text := range tc.programs {
				err := os.WriteFile(filepath.Join(bin, program), []byte("#!/bin/sh\n"+text+"\n"), 0o755)
				if err != nil {
					t.Fatal(err)
				}
			}
			run := Plan(Home{Runtime: "zz9", Dirs: distro.Dirs{Data: data, Provisioning: capr}}).Instructions[0]
			cmd := exec.Command(run.Command, run.Args...)
			cmd.Env = append(os.Environ(), append(run.Env, "PATH="+bin+":"+os.Getenv("PATH"))...)
			out, _ := cmd.CombinedOutput()
			if cmd.ProcessState.ExitCode() != tc.code || !strings.Contains(string(out), tc.want) {
				t.Errorf("exit code %d: %s", cmd.ProcessState.ExitCode(), out)
			}
			if _, err := os.Stat(capr); (err == nil) != (tc.code != 0) {
				t.Errorf("the provisioning directory: %v", err)
			}
		})
	}
}

func TestWasMissing(t *testing.T) {
	set := map[string]string{rkev1.DeleteMissingCustomMachinesAfterAnnotation: "1h"}
	for name, tc := range map[string]struct {
		annotations map[string]string
		since       time.Time
		want        bool
	}{
		"away for longer":  {set, now.Add(-time.Hour), true},
		"away for shorter": {set, now.Add(-time.Minute), false},
		"not away":         {set, time.Time{}, false},
		"no duration":      {nil, now.Add(-time.Hour), false},
	} {
		if got := WasMissing(tc.annotations, tc.since, now); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

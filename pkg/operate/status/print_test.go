package status

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/operate/diagnose"
	"github.com/drover-io/drover/pkg/testkit/build"
	"github.com/drover-io/drover/pkg/testkit/golden"
)

// joining is a cluster with a server that runs, another one that joins, and a worker without a host.
func joining() (Cluster, []Machine) {
	c := cluster(build.Pool("servers", "ec", 3), build.Pool("workers", "w", 1))
	c.Spec.KubernetesVersion, c.Status.ClusterName, c.Status.Ready = "v1.36.2+k3s1", "c-m-abcdefgh", true
	set(c, "RKECluster", "True", "", "", 2)
	set(c, "Reconciling", "False", "", "", 60)
	set(c, "Ready", "Unknown", "Waiting", "non-ready machines demo-servers-b: waiting for agent to check in", 3)
	a, b := machine("demo-servers-a", "ec", build.WithNode("node-a"), build.WithAddress("10.0.0.1")),
		machine("demo-servers-b", "ec")
	for _, m := range []string{"servers"} {
		a.Labels[rkev1.MachinePoolNameLabel], b.Labels[rkev1.MachinePoolNameLabel] = m, m
	}
	setMeta(a, "InfrastructureReady", "True", "Ready", "", 20)
	setMeta(a, "NodeHealthy", "True", "NodeHealthy", "", 70)
	setMeta(b, "InfrastructureReady", "True", "Ready", "", 30)
	setMeta(b, "Reconciled", "Unknown", "Waiting", "waiting for agent to check in", 30)
	worker := machine("demo-workers-c", "w")
	worker.Labels[rkev1.MachinePoolNameLabel] = "workers"
	setMeta(worker, "InfrastructureReady", "False", "BackOff", "The driver failed:\nno quota \x1b[31mleft\x1b[0m", 5)
	return OfCluster(c), []Machine{OfMachine(worker), OfMachine(b), OfMachine(a)}
}

func fleet() ([]Cluster, []Machine) {
	busy, machines := joining()
	ready := cluster(build.Pool("all", "ecw", 1))
	ready.Namespace, ready.Name, ready.Spec.KubernetesVersion = "team-a", "calm", "v1.36.2+rke2r1"
	set(ready, "Ready", "True", "", "", 80)
	imported := cluster()
	imported.Name, imported.Spec.RKEConfig = "guest", nil
	set(imported, "Reconciling", "True", "Reconciling", "Waiting for the agent", 1)
	return []Cluster{OfCluster(ready), OfCluster(imported), busy}, machines
}

func report() *diagnose.Report {
	return &diagnose.Report{
		Findings: []diagnose.Finding{
			{Link: diagnose.Link{Name: diagnose.LinkAgent, State: diagnose.Waiting}},
			{Link: diagnose.Link{Name: diagnose.LinkHost, Object: "PodMachine fleet-default/demo-workers-c",
				State: diagnose.Broken, What: "the host is not created", Reason: "BackOff",
				Why: "no quota", Since: new(after(5)), Do: []string{"request more quota", "or use another zone"}}},
		},
		Notes: []string{"cannot read events: forbidden"},
	}
}

func TestLines(t *testing.T) {
	clusters, machines := fleet()
	busy, own := joining()
	list, unknown := FleetOf(clusters, machines, true), FleetOf(clusters, nil, false)
	unknown.Notes = []string{"machines are not counted: you may not list them"}
	tree, plainTree := TreeOf(busy, own, report()), TreeOf(busy, own, nil)
	now := after(100)
	for name, lines := range map[string][]string{
		"fleet":            list.Lines(Form{Now: now}),
		"fleet-namespaces": list.Lines(Form{Now: now, Namespaces: true, Wide: true}),
		"fleet-unknown":    unknown.Lines(Form{Now: now}),
		"fleet-coloured":   list.Lines(Form{Now: now, Colour: true}),
		"fleet-narrow":     list.Lines(Form{Now: now, Colour: true, Width: 40}),
		"tree":             plainTree.Lines(Form{Now: now}),
		"tree-broken":      tree.Lines(Form{Now: now, Wide: true}),
		"tree-narrow":      tree.Lines(Form{Now: now, Colour: true, Width: 60}),
	} {
		t.Run(name, func(t *testing.T) {
			golden.Check(t, "testdata/lines/"+name+".txt", strings.Join(lines, "\n")+"\n")
		})
	}
}

func TestLines_FitTheWidth(t *testing.T) {
	busy, own := joining()
	tree := TreeOf(busy, own, report())
	for width := 1; width < 120; width++ {
		for _, line := range tree.Lines(Form{Now: after(100), Colour: true, Width: width}) {
			if visible(line) > width {
				t.Fatalf("a line for %d columns has %d: %q", width, visible(line), line)
			}
		}
	}
}

func TestTreeOf_Groups(t *testing.T) {
	scaled, paused := build.Pool("scaled", "w", 1), build.Pool("paused", "w", 1)
	scaled.Quantity, paused.Paused = nil, true
	host, former := machine("host", "ec"), machine("former", "w")
	former.Labels[rkev1.MachinePoolNameLabel] = "former"
	several := []Machine{OfMachine(host), OfMachine(former)}
	for _, name := range []string{"a", "b"} {
		m := machine(name, "w", build.WithNode(name))
		m.Labels[rkev1.MachinePoolNameLabel] = "scaled"
		setMeta(m, "InfrastructureReady", "True", "Ready", "", 20)
		several = append(several, OfMachine(m))
	}
	tree := TreeOf(OfCluster(cluster(scaled, paused)), several, nil)
	var got []string
	for i := range tree.Groups {
		g := &tree.Groups[i]
		got = append(got, g.title()+" "+g.Count.text()+" "+g.waitsFor())
	}
	want := []string{"Pool scaled (worker) 2/2 ",
		"Pool paused (worker) 0/1 The pool is paused: its machines get no changes", "Existing hosts 0/1 ",
		"Pool former 0/0 The pool is not in the spec any more"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The machines of a cluster of existing hosts are those that it wants.
func TestFleetOf_CountsHosts(t *testing.T) {
	list := FleetOf([]Cluster{OfCluster(cluster())}, []Machine{OfMachine(machine("a", "ecw"))}, true)
	if diff := cmp.Diff(&Count{Wanted: 1, Total: 1}, list.Items[0].Machines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A machine that runs and waits for its turn says so.
func TestChanges(t *testing.T) {
	busy, machines := joining()
	var changes Changes
	want := func(name string, got []string, lines ...string) {
		t.Helper()
		if diff := cmp.Diff(strings.Join(lines, "\n"), strings.Join(got, "\n")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	const at = "2026-09-01T12:01:40Z "
	want("all", changes.Next([]Cluster{busy}, machines, after(100)),
		at+"Cluster fleet-default/demo Waiting: non-ready machines demo-servers-b: waiting for agent to check in",
		at+"Machine fleet-default/demo-servers-a Running",
		at+"Machine fleet-default/demo-servers-b Joining: waiting for agent to check in",
		at+"Machine fleet-default/demo-workers-c Creating: The driver failed: no quota  [31mleft [0m")
	want("the same", changes.Next([]Cluster{busy}, machines, after(100)))
	machines[2].Conditions = append(machines[2].Conditions, Condition{Type: "Reconciled", Status: "Unknown",
		Message: "draining node"})
	want("a change and a removal", changes.Next([]Cluster{busy}, machines[1:], after(100)),
		at+"Machine fleet-default/demo-servers-a Running: draining node",
		at+"Machine fleet-default/demo-workers-c is gone")
}

func TestScreen(t *testing.T) {
	var out strings.Builder
	screen := Screen{Out: &out}
	for _, step := range []struct {
		name          string
		lines         []string
		width, height int
		want          string
	}{
		{"first", []string{"a", "b"}, 80, 24, "\ra\x1b[K\r\nb\x1b[K\r\n\x1b[J"},
		{"the same", []string{"a", "b"}, 80, 24, ""},
		{"shorter", []string{"c"}, 80, 24, "\x1b[2A\rc\x1b[K\r\n\x1b[J"},
		{"too long for the terminal", []string{"a", "b", "c", "d"}, 80, 4,
			"\x1b[1A\ra\x1b[K\r\nb\x1b[K\r\nand 2 more lines\x1b[K\r\n\x1b[J"},
		{"a narrower terminal wraps the former lines", []string{"a"}, 8, 24, "\x1b[4A\ra\x1b[K\r\n\x1b[J"},
		{"a low terminal", []string{"a", "b"}, 8, 1, "\rand 2 more lines\x1b[K\r\n\x1b[J"},
	} {
		out.Reset()
		if err := screen.Draw(step.lines, step.width, step.height); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}

func TestVisible_IgnoresColours(t *testing.T) {
	if got := visible("\x1b[1mab\x1b[0m …\x1b[0;31mc"); got != 5 {
		t.Errorf("got %d", got)
	}
}

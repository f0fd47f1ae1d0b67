package writes

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/tests/contract/audit"
)

const core = "drover/unknown drover (linux/amd64) cluster.x-k8s.io/unknown"

func write(agent, verb, resource, subresource string, code int) audit.Write {
	return audit.Write{UserAgent: agent, Verb: verb, Resource: resource, Subresource: subresource, Code: code}
}

func TestReport(t *testing.T) {
	machine := func(agent, verb, subresource string, code int) audit.Write {
		w := write(agent, verb, "machines", subresource, code)
		w.Group = "cluster.x-k8s.io"
		return w
	}
	dry := machine(core, "patch", "", 200)
	dry.DryRun = true
	tally := New()
	for _, w := range []audit.Write{
		machine(core, "patch", "status", 200), machine(core, "patch", "status", 200),
		machine(core, "patch", "status", 409), machine("drover/v1", "patch", "status", 200), dry,
		write("drover/v1", "create", "secrets", "", 409), write("drover/v1", "update", "secrets", "", 200),
		write("fakeagent", "update", "secrets", "", 200), write("fakeagent", "update", "jobs", "status", 200),
		write("drover/v1", "create", "events", "", 201), write("kube-scheduler", "create", "events", "", 201),
		write("drover/v1", "update", "leases", "", 200), write("kubectl", "create", "secrets", "", 201),
	} {
		tally.Add(w)
	}
	changes := map[string]int64{"machines.cluster.x-k8s.io": 2, "secrets": 3, "jobs": 1}
	want := Report{
		ClusterAPI: 1.5, Drover: 1.5, Agents: 1, Events: 0.5, Conflicts: 0.5, Unchanged: 0.5,
		UnchangedKinds: map[string]float64{"machines.cluster.x-k8s.io": 0.5},
		Kinds: []Kind{{Kind: "machines.cluster.x-k8s.io/status", ClusterAPI: 1.5, Drover: 0.5, Conflicts: 0.5},
			{Kind: "secrets", Drover: 1, Agents: 0.5}},
	}
	got := tally.Report(2, 10, changes)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if got.Sum() != 3 {
		t.Errorf("the sum is %v", got.Sum())
	}
	changes["secrets"] = 0
	if short := tally.Report(2, 1, changes); len(short.Kinds) != 1 || len(short.UnchangedKinds) != 1 {
		t.Errorf("a short report has %v and %v", short.Kinds, short.UnchangedKinds)
	}
}

func TestChangesOfMetrics(t *testing.T) {
	found, err := parse(`# TYPE apiserver_storage_events_received_total counter
apiserver_storage_events_received_total{group="",resource="secrets"} 7
apiserver_storage_events_received_total{group="cluster.x-k8s.io",resource="machines"} 12
`)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{"secrets": 7, "machines.cluster.x-k8s.io": 12}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int64{"secrets": 2, "machines.cluster.x-k8s.io": 12},
		Since(map[string]int64{"secrets": 5}, found)); diff != "" {
		t.Errorf("since (-want +got):\n%s", diff)
	}
	if _, err := parse("# TYPE up gauge\nup 1\n"); err == nil {
		t.Error("a server without the metric must be an error")
	}
}

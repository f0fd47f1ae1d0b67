package grow

import (
	"crypto/sha256"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/tests/contract/audit"
	"github.com/drover-io/drover/tests/contract/plane"
)

const (
	// calm is how long Drover writes nothing before the fleet counts as settled.
	calm = 30 * time.Second
	// firstPart is the part of the settled time in which Drover may write nothing.
	firstPart = time.Minute
	// betweenLooks is the time between two looks at a server that starts. A look costs as much as many requests.
	betweenLooks = 300 * time.Millisecond
	// sessions is the metric of connected agents of clusters.
	sessions = `drover_tunnel_sessions{kind="agent"}`
	// shown is the number of unexpected writes that the progress shows.
	shown = 10
)

// Settled is the settled fleet.
type Settled struct {
	Seconds float64 `json:"seconds"`
	// WaitedSeconds is the time from the last ready cluster until Drover wrote nothing.
	WaitedSeconds float64 `json:"waitedSeconds"`
	// Writes are those of Drover and its Cluster API in the first minute, and AllWrites those in the whole time.
	Writes    int `json:"writesInFirstMinute"`
	AllWrites int `json:"writes"`
	// AgentWritesPerNode are the reports of machines in five minutes.
	AgentWritesPerNode float64 `json:"agentWritesPerNodeInFiveMinutes"`
	// Percent is the processor time of each process, in percent of one core.
	Percent  Usage  `json:"percentOfOneCore"`
	Resident Usage  `json:"residentMiB"`
	Goals    []Goal `json:"goals"`
}

// Killed is the time after the server was killed and started again.
type Killed struct {
	// ReadySeconds is the time until the new server is ready, LeaderSeconds until its controllers run, and
	// WorkingSeconds until the machine of an edited cluster has applied its new plan.
	ReadySeconds   float64 `json:"readySeconds"`
	LeaderSeconds  float64 `json:"leaderSeconds"`
	WorkingSeconds float64 `json:"workingSeconds"`
	// NodeAgentsSeconds and ClusterAgentsSeconds are the times until all agents are connected again.
	NodeAgentsSeconds    float64 `json:"nodeAgentsSeconds"`
	ClusterAgentsSeconds float64 `json:"clusterAgentsSeconds"`
	// PlansChanged counts the plans of other clusters that changed, of Plans.
	Plans        int `json:"plans"`
	PlansChanged int `json:"plansChanged"`
	// Writes are those of Drover and its Cluster API to other clusters, until it wrote nothing. Unchanged are the
	// writes of all clients that changed nothing: a new core has to send its applies once.
	Writes    int `json:"writesToOtherClusters"`
	Unchanged int `json:"writesThatChangedNothing"`
	// CPU is the processor time of the new server, and Resident the memory, when it wrote nothing.
	CPUSeconds  float64 `json:"serverCPUSeconds"`
	ResidentMiB float64 `json:"serverResidentMiB"`
	Goals       []Goal  `json:"goals"`
}

// Goal is the upper limit of a figure.
type Goal struct {
	Figure   string  `json:"figure"`
	Measured float64 `json:"measured"`
	Goal     float64 `json:"goal"`
	Within   bool    `json:"within"`
}

func goal(figure string, measured, limit float64) Goal {
	return Goal{figure, measured, limit, measured <= limit}
}

// watchSettled measures the fleet while nothing happens.
func (f *fleet) watchSettled() {
	f.Helper()
	begin := time.Now()
	f.log.awaitIdle(calm, 15*time.Minute)
	waited := time.Since(begin) - calm
	for i, namespace := range f.spaces {
		f.st.AwaitMachines(namespace, (f.made-i+len(f.spaces)-1)/len(f.spaces)*f.machines)
	}
	f.say("settled")
	f.log.restart()
	f.profile("cpu-settled", "profile?seconds=30", time.Second)
	cpu, _ := f.usage()
	begin = time.Now()
	f.pause(min(firstPart, f.settled))
	f.log.read()
	first := len(f.log.drover)
	f.pause(f.settled - time.Since(begin))
	f.log.read()
	took := time.Since(begin)
	after, resident := f.usage()
	percent := func(before, after float64) float64 { return round((after - before) / took.Seconds() * 100) }
	nodes := float64(f.made * f.machines)
	out := &Settled{Seconds: round(took.Seconds()), WaitedSeconds: round(max(0, waited.Seconds())), Writes: first,
		AllWrites:          len(f.log.drover),
		AgentWritesPerNode: round(float64(f.log.agents) / nodes * (5 * time.Minute).Seconds() / took.Seconds()),
		Percent: Usage{percent(cpu.Server, after.Server), percent(cpu.APIServer, after.APIServer),
			percent(cpu.Etcd, after.Etcd), percent(cpu.World, after.World)},
		Resident: resident,
	}
	out.Goals = []Goal{goal("writesInFirstMinute", float64(out.Writes), 0),
		goal("agentWritesPerNodeInFiveMinutes", out.AgentWritesPerNode, 1),
		goal("percentOfOneCore.server", out.Percent.Server, 5), goal("residentMiB.server", resident.Server, 1536)}
	f.sayWrites("while settled", f.log.drover)
	f.result.Settled = out
	f.sayFigures("settled", out)
}

func (f *fleet) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-f.Context().Done():
	}
}

// sayWrites shows the first of unexpected writes.
func (f *fleet) sayWrites(when string, all []audit.Write) {
	for _, w := range all[:min(shown, len(all))] {
		f.say("a write %s: %s %s/%s %s/%s by %s, answered %d", when, w.Verb, w.Resource, w.Subresource, w.Namespace,
			w.Name, w.UserAgent, w.Code)
	}
}

// kill kills the server, starts it again, and edits a cluster at the same moment.
func (f *fleet) kill() {
	f.Helper()
	before, changed := f.plans(), f.changes()
	f.log.restart()
	f.server.Kill()
	begin := time.Now()
	since := func() float64 { return round(time.Since(begin).Seconds()) }
	f.server.Start()
	f.edit()
	f.profile("cpu-restarted", "profile?seconds=20", 15*time.Second)
	out := &Killed{}
	plane.Until(f, 10*time.Minute, func() string {
		f.pause(betweenLooks)
		values := f.metrics()
		if out.ReadySeconds == 0 && f.server.Unready() == "" {
			out.ReadySeconds = since()
		}
		if out.LeaderSeconds == 0 && values["drover_leader"] == 1 {
			out.LeaderSeconds = since()
		}
		if out.NodeAgentsSeconds == 0 && int(f.nodes.open.Load()) == f.made*f.machines {
			out.NodeAgentsSeconds = since()
		}
		if out.ClusterAgentsSeconds == 0 && int(values[sessions]) >= f.made {
			out.ClusterAgentsSeconds = since()
		}
		if out.WorkingSeconds == 0 && f.carriedOut(before) {
			out.WorkingSeconds = since()
		}
		if out.WorkingSeconds == 0 || out.NodeAgentsSeconds == 0 || out.ClusterAgentsSeconds == 0 {
			return fmt.Sprintf("the new server does not work yet: %+v", *out)
		}
		return ""
	})
	f.log.awaitIdle(calm, 15*time.Minute)
	out.Unchanged = int(f.log.now.Report(1, 0, f.since(changed)).Unchanged)
	f.finish(out, before)
}

func (f *fleet) finish(out *Killed, before map[string]plan) {
	f.Helper()
	for name, now := range f.plans() {
		if now.cluster == f.edited() {
			continue
		}
		out.Plans++
		if now.hash != before[name].hash {
			out.PlansChanged++
		}
	}
	if want := (f.made - 1) * f.machines; out.Plans != want {
		f.Errorf("there are %d plans of other clusters, want %d", out.Plans, want)
	}
	others := f.writesToOthers()
	f.sayWrites("after the restart", others)
	cpu, resident := f.usage()
	out.Writes, out.CPUSeconds, out.ResidentMiB = len(others), round(cpu.Server), resident.Server
	out.Goals = []Goal{goal("workingSeconds", out.WorkingSeconds, 60),
		goal("plansChanged", float64(out.PlansChanged), 0)}
	f.result.Killed = out
	f.sayFigures("killed", out)
}

// edited is the name of the cluster that is edited after the restart: the last one.
func (f *fleet) edited() string { return clusterName(f.made - 1) }

// writesToOthers returns the writes to objects of other clusters than the edited one.
func (f *fleet) writesToOthers() []audit.Write {
	f.Helper()
	cluster := &provv1.Cluster{}
	f.must(f.st.Client.Get(f.Context(),
		client.ObjectKey{Namespace: f.namespaceOf(f.made - 1), Name: f.edited()}, cluster))
	var out []audit.Write
	for _, w := range f.log.drover {
		if !ofCluster(w.Name, cluster.Name) && w.Namespace != cluster.Status.ClusterName &&
			w.Name != cluster.Status.ClusterName {
			out = append(out, w)
		}
	}
	return out
}

// ofCluster reports whether an object has the name of a cluster, or a name that begins with it.
func ofCluster(name, cluster string) bool {
	return name == cluster || len(name) > len(cluster) && name[:len(cluster)+1] == cluster+"-"
}

// edit changes the plan of the last cluster's server.
func (f *fleet) edit() {
	f.Helper()
	f.st.Edit(f.namespaceOf(f.made-1), f.edited(), func(c *provv1.Cluster) {
		c.Spec.RKEConfig.AdditionalManifest = `apiVersion: v1
kind: ConfigMap
metadata:
  namespace: default
  name: edited
`
	})
}

// plan is the plan of a machine, without the reports about it.
type plan struct {
	cluster string
	hash    [sha256.Size]byte
}

// plans returns the plans of all machines by their Secrets. It reads them in parts.
func (f *fleet) plans() map[string]plan {
	f.Helper()
	out := map[string]plan{}
	for next := ""; ; {
		list := &corev1.SecretList{}
		f.must(f.st.Client.List(f.Context(), list, client.Limit(200), client.Continue(next),
			client.MatchingFields{"type": rkev1.SecretTypeMachinePlan}))
		for i := range list.Items {
			secret := &list.Items[i]
			out[secret.Name] = plan{secret.Labels[rkev1.ClusterNameLabel],
				sha256.Sum256(secret.Data[nodeplan.KeyPlan])}
		}
		if next = list.Continue; next == "" {
			return out
		}
	}
}

// carriedOut reports whether a machine of the edited cluster has applied a new plan.
func (f *fleet) carriedOut(before map[string]plan) bool {
	f.Helper()
	for name, old := range before {
		if old.cluster != f.edited() {
			continue
		}
		secret := &corev1.Secret{}
		f.must(f.st.Client.Get(f.Context(), client.ObjectKey{Namespace: f.namespaceOf(f.made - 1), Name: name}, secret))
		raw := secret.Data[nodeplan.KeyPlan]
		if sha256.Sum256(raw) != old.hash &&
			string(secret.Data[nodeplan.KeyAppliedChecksum]) == nodeplan.Checksum(raw) {
			return true
		}
	}
	return false
}

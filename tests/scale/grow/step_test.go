package grow

import (
	"fmt"
	"os"
	"time"

	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

// stuck is how long no cluster may become ready while the fleet grows.
const stuck = 10 * time.Minute

// Step is a part of the curve: the clusters of one step became ready.
type Step struct {
	// Clusters is the size of the fleet at the end.
	Clusters int `json:"clusters"`
	// Seconds is the time from the first apply of the step until the last of its clusters was ready.
	Seconds float64 `json:"seconds"`
	// Median and Slowest are the times from the apply of one cluster until it was ready.
	Median  float64 `json:"medianSeconds"`
	Slowest float64 `json:"slowestSeconds"`
	// WritesPerMachine are those of Cluster API and Drover, and EventsPerMachine their Events.
	WritesPerMachine float64 `json:"writesPerMachine"`
	EventsPerMachine float64 `json:"eventsPerMachine"`
	// Conflicts are part of the writes.
	Conflicts float64 `json:"conflictsPerMachine"`
	// CPU is the processor time of the step, and Resident the memory at its end.
	CPU      Usage `json:"cpuSeconds"`
	Resident Usage `json:"residentMiB"`
	// Goroutines and LiveMiB are those of the server. LiveMiB is its live heap after the last collection.
	Goroutines float64 `json:"serverGoroutines"`
	LiveMiB    float64 `json:"serverLiveMiB"`
	// Agents are the open watches of machines.
	Agents int `json:"connectedAgents"`
	// DatabaseMiB is the size of etcd's file.
	DatabaseMiB float64 `json:"databaseMiB"`
}

// Usage is a figure of each process. World is this process, which plays the machines.
type Usage struct {
	Server    float64 `json:"server"`
	APIServer float64 `json:"apiServer"`
	Etcd      float64 `json:"etcd"`
	World     float64 `json:"machines"`
}

// grow creates the clusters step by step.
func (f *fleet) grow() {
	f.Helper()
	f.begin = time.Now()
	before := f.changes()
	for f.made < f.clusters {
		f.takeStep()
		f.result.Seconds = round(time.Since(f.begin).Seconds())
		f.result.Writes = f.log.all.Report(f.made*f.machines, 15, f.since(before))
		f.sayFigures("step", f.result.Curve[len(f.result.Curve)-1])
	}
	f.say("%d clusters after %s", f.made, time.Since(f.begin).Round(time.Second))
}

// takeStep creates the clusters of one step, and waits until they are ready.
func (f *fleet) takeStep() {
	f.Helper()
	from, to := f.made, min(f.made+f.step, f.clusters)
	cpu, _ := f.usage()
	f.log.restart()
	f.profile(fmt.Sprintf("cpu-%04d", to), "profile?seconds=20", 10*time.Second)
	begin := time.Now()
	f.create(to)
	f.awaitReady(0)
	took := time.Since(begin)
	f.nodes.await(f.made*f.machines, 2*time.Minute)
	f.log.read()
	all := (to - from) * f.machines
	report := f.log.now.Report(all, 0, nil)
	after, resident := f.usage()
	values := f.metrics()
	median, slowest := f.ready.quantiles(from, to)
	f.result.Curve = append(f.result.Curve, Step{
		Clusters: to, Seconds: round(took.Seconds()), Median: median, Slowest: slowest,
		WritesPerMachine: report.Sum(), EventsPerMachine: report.Events, Conflicts: report.Conflicts,
		CPU: Usage{round(after.Server - cpu.Server), round(after.APIServer - cpu.APIServer),
			round(after.Etcd - cpu.Etcd), round(after.World - cpu.World)},
		Resident: resident, Goroutines: values["go_goroutines"],
		LiveMiB: mebibytes(int64(values["go_gc_heap_live_bytes"])),
		Agents:  int(f.nodes.open.Load()), DatabaseMiB: f.database(),
	})
	f.profile(fmt.Sprintf("heap-%04d", to), "heap?gc=1", 0)
	f.profile(fmt.Sprintf("goroutines-%04d", to), "goroutine", 0)
}

// create applies clusters up to a number, and waits while too many are unready.
func (f *fleet) create(to int) {
	f.Helper()
	for f.made < to {
		f.awaitReady(f.unready - 1)
		name := clusterName(f.made)
		f.ready.applied(name)
		f.st.Cluster(f.namespaceOf(f.made), name, []string{stage.RKE2, stage.K3s}[f.made%2],
			stage.Pool("server", "ec", 1), stage.Pool("worker", "w", int32(f.machines-1)))
		f.made++
	}
}

func clusterName(i int) string { return fmt.Sprintf("c%04d", i) }

// awaitReady waits until at most a number of clusters is unready. It fails when none becomes ready for a long time.
func (f *fleet) awaitReady(most int) {
	f.Helper()
	last, since, said := -1, time.Now(), time.Now()
	for {
		unready := f.ready.unready()
		if len(unready) <= most {
			return
		}
		if len(unready) != last {
			last, since = len(unready), time.Now()
		}
		if time.Since(said) > 30*time.Second {
			said = time.Now()
			f.say("%d clusters, %d of them unready, %d agents", f.made, len(unready), f.nodes.open.Load())
			f.log.read()
		}
		if time.Since(since) > stuck {
			for _, name := range unready[:min(5, len(unready))] {
				f.say("%s", f.waitingFor(name))
			}
			f.Fatalf("no cluster has become ready for %s; %d are unready", stuck, len(unready))
		}
		select {
		case <-f.ready.changed:
		case <-time.After(time.Second):
		case <-f.Context().Done():
			f.FailNow()
		}
	}
}

// waitingFor returns what a cluster lacks.
func (f *fleet) waitingFor(name string) string {
	for i := range f.made {
		if clusterName(i) == name {
			return f.st.WaitingFor(f.namespaceOf(i), name)
		}
	}
	return name
}

// usage returns the processor time in seconds and the resident memory in MiB of all processes.
func (f *fleet) usage() (cpu, resident Usage) {
	f.Helper()
	var found [4]plane.Usage
	for i, pid := range []int{f.server.PID(), plane.Running(f).PID("kube-apiserver"), plane.Running(f).PID("etcd"),
		os.Getpid()} {
		found[i] = plane.UsageOfProcess(f, pid)
	}
	return Usage{found[0].CPU.Seconds(), found[1].CPU.Seconds(), found[2].CPU.Seconds(), found[3].CPU.Seconds()},
		Usage{mebibytes(found[0].Resident), mebibytes(found[1].Resident), mebibytes(found[2].Resident),
			mebibytes(found[3].Resident)}
}

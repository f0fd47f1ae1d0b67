package scale

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/drover-io/drover/pkg/testkit/fakeagent"
	"github.com/drover-io/drover/tests/contract/audit"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/replica"
	"github.com/drover-io/drover/tests/contract/stage"
	"github.com/drover-io/drover/tests/scale/writes"
)

func TestMain(m *testing.M) { os.Exit(stage.Main(m)) }

// The positions of the switch --core-writes.
const (
	plain   = "plain"
	thrifty = "thrifty"
)

const (
	// allFleets are the fleets of docs/performance.md, each as CLUSTERSxMACHINES.
	allFleets = "1x3 20x4"
	// listed is the number of kinds in the result.
	listed = 12
	// idle is how long Drover writes nothing before a run counts as done.
	idle = stage.Rest
)

// order is the order of the runs of a fleet. Whatever drifts during the benchmark affects both positions alike.
var order = []string{plain, thrifty, thrifty, plain}

// Run is the mean of the runs with one position of the switch. CPU times are from the first apply until Drover's last
// write. The wait for another write does not count.
type Run struct {
	// SecondsToReady is the time from the first apply until the last Cluster was Ready.
	SecondsToReady      float64 `json:"secondsToReady"`
	APIServerCPUSeconds float64 `json:"apiServerCPUSeconds"`
	EtcdCPUSeconds      float64 `json:"etcdCPUSeconds"`
	DroverCPUSeconds    float64 `json:"droverCPUSeconds"`
	// DroverMiB is the resident memory of Drover's process at the end.
	DroverMiB float64 `json:"droverMiB"`
	// WritesPerMachine are those of Cluster API and Drover. Writes explains them, for the last run.
	WritesPerMachine float64       `json:"writesPerMachine"`
	Writes           writes.Report `json:"writes"`
}

// Fleet is the result for one fleet. Ratios are those of thrifty to plain.
type Fleet struct {
	Fleet          string  `json:"fleet"`
	SecondsRatio   float64 `json:"secondsRatio"`
	APIServerRatio float64 `json:"apiServerCPURatio"`
	DroverRatio    float64 `json:"droverCPURatio"`
	WritesRatio    float64 `json:"writesRatio"`
	Goals          []Goal  `json:"goals,omitempty"`
	Plain          Run     `json:"plain"`
	Thrifty        Run     `json:"thrifty"`
	// Seconds are those of all runs, in their order.
	Seconds []string `json:"secondsOfAllRuns"`
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

// goals returns the goals of a fleet.
func (f *Fleet) goals() []Goal {
	switch f.Fleet {
	case "1x3":
		return []Goal{goal("thrifty.secondsToReady", f.Thrifty.SecondsToReady, 6)}
	case "20x4":
		return []Goal{
			goal("thrifty.writesPerMachine", f.Thrifty.WritesPerMachine, 80),
			goal("secondsRatio", f.SecondsRatio, 0.5), goal("apiServerCPURatio", f.APIServerRatio, 0.45),
		}
	}
	return nil
}

// TestBench measures the fleets of docs/performance.md, with both positions of the switch. It runs when DROVER_BENCH
// names a file for the result. DROVER_BENCH_FLEETS names other fleets, and omits the isolation.
func TestBench(t *testing.T) {
	target := os.Getenv("DROVER_BENCH")
	if target == "" {
		t.Skip("DROVER_BENCH is not set: use `make bench`")
	}
	fleets := os.Getenv("DROVER_BENCH_FLEETS")
	result := map[string]any{"cores": runtime.NumCPU()}
	var measured []Fleet
	for name := range strings.FieldsSeq(cmp.Or(fleets, allFleets)) {
		measured = append(measured, compare(t, name))
	}
	result["fleets"] = measured
	if fleets == "" {
		result["isolation"] = measureIsolation(t)
	}
	out, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(target, out, 0o600); err != nil {
		t.Fatal(err)
	}
}

// compare runs a fleet with both positions of the switch in turn.
func compare(t *testing.T, name string) Fleet {
	t.Helper()
	var clusters, machines int
	if _, err := fmt.Sscanf(name, "%dx%d", &clusters, &machines); err != nil || clusters < 1 || machines < 2 {
		t.Fatalf("fleet %q must be CLUSTERSxMACHINES with at least two machines, such as 20x4", name)
	}
	runs, out := map[string][]Run{}, Fleet{Fleet: name}
	for i, position := range order {
		t.Run(fmt.Sprintf("%s-%s-%d", position, name, i), func(t *testing.T) {
			run := measure(t, position, clusters, int32(machines))
			runs[position] = append(runs[position], run)
			out.Seconds = append(out.Seconds, fmt.Sprint(position, " ", run.SecondsToReady))
		})
	}
	if t.Failed() {
		t.FailNow()
	}
	out.Plain, out.Thrifty = mean(runs[plain]), mean(runs[thrifty])
	ratio := func(of func(Run) float64) float64 { return hundredths(of(out.Thrifty) / of(out.Plain)) }
	out.SecondsRatio = ratio(func(r Run) float64 { return r.SecondsToReady })
	out.APIServerRatio = ratio(func(r Run) float64 { return r.APIServerCPUSeconds })
	out.DroverRatio = ratio(func(r Run) float64 { return r.DroverCPUSeconds })
	out.WritesRatio = ratio(func(r Run) float64 { return r.WritesPerMachine })
	out.Goals = out.goals()
	return out
}

func mean(runs []Run) Run {
	out := runs[len(runs)-1]
	for _, field := range []func(*Run) *float64{
		func(r *Run) *float64 { return &r.SecondsToReady }, func(r *Run) *float64 { return &r.APIServerCPUSeconds },
		func(r *Run) *float64 { return &r.EtcdCPUSeconds }, func(r *Run) *float64 { return &r.DroverCPUSeconds },
		func(r *Run) *float64 { return &r.DroverMiB }, func(r *Run) *float64 { return &r.WritesPerMachine },
	} {
		sum := 0.0
		for i := range runs {
			sum += *field(&runs[i])
		}
		*field(&out) = round(sum / float64(len(runs)))
	}
	return out
}

// measure runs a fleet once, with a server of its own, and removes it.
func measure(t *testing.T, position string, clusters int, machines int32) Run {
	t.Helper()
	server := replica.New(t, "drover", stage.AccountKubeconfig(t), "--shutdown-delay=0s", "--core-writes="+position)
	st := stage.Start(t, stage.Settings{
		Machines: func(o *fakeagent.Options) { o.Dial = replica.Dial(server) },
		Drover:   func(*testing.T) { server.Start(); server.AwaitReady() },
	})
	replica.Leader(t, time.Minute, server)
	namespace, versions := plane.Namespace(t), map[string]string{}
	for i := range clusters {
		versions[fmt.Sprintf("fleet-%02d", i)] = []string{stage.RKE2, stage.K3s}[i%2]
	}
	watched, after := newLog(t), used{}
	watched.awaitIdle(idle, 2*time.Minute)
	tally := watched.restart()
	before, changed := usage(t, server), changes(t)
	watched.written = func() { after = usage(t, server) }
	begin := time.Now()
	fleet := st.Apply(namespace, machines, versions)
	for name := range versions {
		plane.Until(t, 10*time.Minute, func() string { return st.WaitingFor(namespace, name) })
	}
	ready := time.Since(begin)
	all := clusters * int(machines)
	st.AwaitMachines(namespace, all)
	watched.awaitIdle(idle, 2*time.Minute)
	report := tally.Report(all, listed, writes.Since(changed, changes(t)))
	run := Run{
		SecondsToReady: round(ready.Seconds()), WritesPerMachine: report.Sum(), Writes: report,
		APIServerCPUSeconds: round((after.apiServer.CPU - before.apiServer.CPU).Seconds()),
		EtcdCPUSeconds:      round((after.etcd.CPU - before.etcd.CPU).Seconds()),
		DroverCPUSeconds:    round((after.drover.CPU - before.drover.CPU).Seconds()),
		DroverMiB:           round(mebibytes(after.drover.Resident)),
	}
	t.Logf("%s %dx%d: %+v", position, clusters, machines, run)
	fleet.Delete()
	return run
}

// used is the usage of the processes.
type used struct{ apiServer, etcd, drover plane.Usage }

func usage(t *testing.T, server *replica.Replica) used {
	t.Helper()
	return used{plane.UsageOf(t, "kube-apiserver"), plane.UsageOf(t, "etcd"), plane.UsageOfProcess(t, server.PID())}
}

func changes(t *testing.T) map[string]int64 {
	t.Helper()
	found, err := writes.Changes(t.Context(), plane.Config(t, "benchmark"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// log follows the API server's audit log.
type log struct {
	*testing.T
	follower *audit.Follower
	tally    *writes.Tally
	last     time.Time
	written  func() // is called soon after writes of Drover, during awaitIdle
}

func newLog(t *testing.T) *log {
	t.Helper()
	l := &log{T: t, follower: audit.Follow(plane.Running(t).AuditLog()), tally: writes.New(), written: func() {}}
	t.Cleanup(func() { _ = l.follower.Close() })
	return l
}

// restart counts from now on.
func (l *log) restart() *writes.Tally {
	l.tally = writes.New()
	return l.tally
}

// awaitIdle counts writes until Drover has written nothing for a while.
func (l *log) awaitIdle(quiet, limit time.Duration) {
	l.Helper()
	plane.Until(l, limit, func() string {
		before := l.last
		err := l.follower.Read(func(w audit.Write) {
			l.tally.Add(w)
			if writes.IsDrovers(w) && !w.Bookkeeping() {
				l.last = w.Time
			}
		})
		if err != nil {
			l.Fatal(err)
		}
		if !l.last.Equal(before) {
			l.written()
		}
		if since := time.Since(l.last); since < quiet {
			return fmt.Sprintf("Drover wrote %s ago", since)
		}
		return ""
	})
}

func mebibytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }

func round(value float64) float64 { return math.Round(value*10) / 10 }

func hundredths(value float64) float64 { return math.Round(value*100) / 100 }

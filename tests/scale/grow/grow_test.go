package grow

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/drover-io/drover/pkg/testkit/fakeagent"
	"github.com/drover-io/drover/tests/contract/audit"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/replica"
	"github.com/drover-io/drover/tests/contract/stage"
	"github.com/drover-io/drover/tests/scale/writes"
)

// target is the environment variable with the file for the result.
const target = "DROVER_SCALE"

func TestMain(m *testing.M) {
	if os.Getenv(target) == "" {
		os.Exit(m.Run()) // no test needs a plane
	}
	logrus.SetLevel(logrus.ErrorLevel) // the library of the agents logs an error for each session that ends
	// A growing fleet writes more in five minutes, the default, than etcd's file may hold.
	os.Exit(stage.Main(m, func(o *plane.Options) { o.APIServerArgs = []string{"--etcd-compaction-interval=1m"} }))
}

// Result is the result of one run. It is written after every step, so that a run that was stopped has one, too.
type Result struct {
	Cores      int    `json:"cores"`
	Clusters   int    `json:"clusters"`
	Machines   int    `json:"machinesPerCluster"`
	Namespaces int    `json:"namespaces"`
	CoreWrites string `json:"coreWrites"`
	// Seconds is the time from the first apply to the end of the last step.
	Seconds float64  `json:"seconds"`
	Curve   []Step   `json:"curve"`
	Settled *Settled `json:"settled,omitempty"`
	Killed  *Killed  `json:"killed,omitempty"`
	// Writes are those per machine from the beginning to the last step.
	Writes writes.Report `json:"writes"`
}

// sizes are the sizes of a run.
type sizes struct {
	clusters, machines, step int
	// namespaces is the number of namespaces with the clusters.
	namespaces int
	// unready is the number of clusters that may be unready at the same time.
	unready int
	// settled is how long the settled fleet is watched.
	settled    time.Duration
	coreWrites string
	// profiles is the folder for profiles of the server, or empty.
	profiles string
}

func sizesOf(t *testing.T) sizes {
	t.Helper()
	number := func(name string, otherwise int) int {
		text := os.Getenv("DROVER_SCALE_" + name)
		if text == "" {
			return otherwise
		}
		value, err := strconv.Atoi(text)
		if err != nil || value < 1 {
			t.Fatalf("%s must be a number of at least 1, not %q", name, text)
		}
		return value
	}
	s := sizes{clusters: number("CLUSTERS", 1000), machines: number("MACHINES", 3), unready: number("UNREADY", 40),
		namespaces: number("NAMESPACES", 20),
		settled:    time.Duration(number("SETTLED", 300)) * time.Second,
		coreWrites: os.Getenv("DROVER_SCALE_CORE_WRITES"), profiles: os.Getenv("DROVER_SCALE_PROFILES")}
	s.step = number("STEP", min(100, max(1, s.clusters/5)))
	if s.machines < 2 {
		t.Fatal("MACHINES must be at least 2: one server and its workers")
	}
	return s
}

// fleet is a fleet that grows.
type fleet struct {
	*testing.T
	sizes
	st       *stage.Stage
	server   *replica.Replica
	profiler string // the server's address
	nodes    *nodes
	spaces   []string // the namespaces with the clusters
	begin    time.Time
	log      *log
	ready    *readiness
	made     int
	result   Result
}

// TestGrow runs when DROVER_SCALE names a file for the result.
func TestGrow(t *testing.T) {
	if os.Getenv(target) == "" {
		t.Skip(target + " is not set: use `make bench-scale`")
	}
	f := newFleet(t)
	f.grow()
	f.watchSettled()
	f.kill()
	f.save()
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{T: t, sizes: sizesOf(t), profiler: "127.0.0.1:" + stage.FreePort(t)}
	arguments := []string{"--shutdown-delay=0s", "--profiler-address=" + f.profiler}
	if f.coreWrites != "" {
		arguments = append(arguments, "--core-writes="+f.coreWrites)
	}
	f.server = replica.New(t, "drover", stage.AccountKubeconfig(t), arguments...)
	f.nodes = newNodes(t, f.server)
	f.st = stage.Start(t, stage.Settings{
		Machines: func(o *fakeagent.Options) {
			o.Boot, o.Install, o.Probe, o.Idle = time.Second, time.Second, time.Second, 2*time.Minute
			o.Dial, o.Secrets, o.Log = replica.Dial(f.server), f.nodes.secrets, f.problem
		},
		Drover: func(*testing.T) { f.server.Start(); f.server.AwaitReady() },
	})
	f.nodes.world = f.st.World
	f.nodes.trust(f.st)
	replica.Leader(t, time.Minute, f.server)
	for range f.namespaces {
		f.spaces = append(f.spaces, plane.Namespace(t))
	}
	f.log = newLog(t)
	f.ready = watchReadiness(t)
	f.result = Result{Cores: runtime.NumCPU(), Clusters: f.clusters, Machines: f.machines,
		Namespaces: f.namespaces, CoreWrites: cmp.Or(f.coreWrites, "default")}
	return f
}

// namespaceOf returns the namespace of a cluster by its number.
func (f *fleet) namespaceOf(i int) string { return f.spaces[i%len(f.spaces)] }

// problem ignores the messages of machines. There are many of them, and the progress shows whether machines work.
func (f *fleet) problem(string, ...any) {}

// say prints progress.
func (f *fleet) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

// sayFigures prints figures as soon as they are known, and saves the result.
func (f *fleet) sayFigures(name string, figures any) {
	f.Helper()
	out, err := json.Marshal(figures)
	f.must(err)
	f.say("%s %s", name, out)
	f.save()
}

func (f *fleet) save() {
	f.Helper()
	out, err := json.Marshal(f.result)
	f.must(err)
	f.must(os.WriteFile(os.Getenv(target), out, 0o600))
}

func (f *fleet) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// log follows the API server's audit log.
type log struct {
	*testing.T
	follower *audit.Follower
	// all counts from the beginning. now counts since the last restart.
	all, now *writes.Tally
	// drover and agents are the writes since the last restart.
	drover []audit.Write
	agents int
	last   time.Time
}

func newLog(t *testing.T) *log {
	t.Helper()
	l := &log{T: t, follower: audit.Follow(plane.Running(t).AuditLog())}
	t.Cleanup(func() { _ = l.follower.Close() })
	l.read()
	l.all = writes.New()
	l.restart()
	return l
}

func (l *log) read() {
	l.Helper()
	err := l.follower.Read(func(w audit.Write) {
		if l.all == nil {
			return
		}
		l.all.Add(w)
		l.now.Add(w)
		switch {
		case w.Bookkeeping():
		case writes.IsDrovers(w):
			l.last, l.drover = w.Time, append(l.drover, w)
		case writes.IsAgents(w):
			l.agents++
		}
	})
	if err != nil {
		l.Fatal(err)
	}
}

// restart counts from now on.
func (l *log) restart() {
	l.Helper()
	l.read()
	l.now, l.drover, l.agents = writes.New(), nil, 0
}

// awaitIdle waits until Drover has written nothing for a while.
func (l *log) awaitIdle(quiet, limit time.Duration) {
	l.Helper()
	plane.Until(l, limit, func() string {
		l.read()
		if since := time.Since(l.last); since < quiet {
			return fmt.Sprintf("Drover wrote %s ago", since)
		}
		return ""
	})
}

func mebibytes(bytes int64) float64 { return math.Round(float64(bytes) / (1 << 20)) }

func round(value float64) float64 { return math.Round(value*10) / 10 }

package scale

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

func TestMain(m *testing.M) { os.Exit(stage.Main(m)) }

// Fleet is the result of one run.
type Fleet struct {
	// Clusters and Machines are the numbers of created clusters and of all their machines.
	Clusters int `json:"clusters"`
	Machines int `json:"machines"`
	// SecondsToReady is the time from the first apply until the last Cluster was Ready.
	SecondsToReady float64 `json:"secondsToReady"`
	// WritesPerMachine counts write requests by Drover and its Cluster API in the API server's audit log, until both
	// were idle. It includes rejected requests, but not Leases and Events.
	WritesPerMachine float64 `json:"writesPerMachine"`
	// APIServerCPUSeconds and EtcdCPUSeconds are the CPU times from the first apply until both were idle.
	APIServerCPUSeconds float64 `json:"apiServerCPUSeconds"`
	EtcdCPUSeconds      float64 `json:"etcdCPUSeconds"`
	// APIServerMiB is the API server's resident memory at the end. DroverMiB is that of this process: Drover, the
	// simulated machines and the APIs of their clusters.
	APIServerMiB float64 `json:"apiServerMiB"`
	DroverMiB    float64 `json:"droverWithSimulatedMachinesMiB"`
}

// Elsewhere are recorded figures of a peer with the same fleets, on two cores of another machine. They show what is
// usual. Ratios to them are meaningless.
type Elsewhere struct {
	Note             string             `json:"note"`
	SecondsToReady   map[string]float64 `json:"secondsToReady"`
	WritesPerMachine float64            `json:"writesPerMachine"`
}

func elsewhere() Elsewhere {
	return Elsewhere{
		Note: "recorded on two cores of another machine, not measured by this run", WritesPerMachine: 153,
		SecondsToReady: map[string]float64{"1x3": 45, "20x4": 80},
	}
}

// TestBench measures the fleets of docs/performance.md. It runs when DROVER_BENCH names a file for the result.
func TestBench(t *testing.T) {
	target := os.Getenv("DROVER_BENCH")
	if target == "" {
		t.Skip("DROVER_BENCH is not set: use `make bench`")
	}
	st := stage.Start(t, stage.Settings{})
	results := []Fleet{measure(t, st, "one", 1, 3), measure(t, st, "twenty", 20, 4)}
	st.End()
	out, err := json.Marshal(map[string]any{"cores": runtime.NumCPU(), "elsewhere": elsewhere(), "fleets": results,
		"isolation": measureIsolation(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(target, out, 0o600); err != nil {
		t.Fatal(err)
	}
}

func measure(t *testing.T, st *stage.Stage, name string, clusters, machines int) Fleet {
	t.Helper()
	namespace := plane.Namespace(t)
	before := map[string]plane.Usage{}
	for _, program := range []string{"kube-apiserver", "etcd"} {
		before[program] = plane.UsageOf(t, program)
	}
	begin := time.Now()
	for i := range clusters {
		version := stage.RKE2
		if i%2 == 1 {
			version = stage.K3s
		}
		st.Cluster(namespace, fmt.Sprintf("%s-%02d", name, i), version, stage.Pool("server", "ec", 1),
			stage.Pool("worker", "w", int32(machines-1)))
	}
	for i := range clusters {
		plane.Until(t, 10*time.Minute, func() string {
			return st.WaitingFor(namespace, fmt.Sprintf("%s-%02d", name, i))
		})
	}
	ready := time.Since(begin)
	st.AwaitMachines(namespace, clusters*machines)
	stage.AwaitQuiet(t, 2*time.Minute)

	apiServer, etcd := plane.UsageOf(t, "kube-apiserver"), plane.UsageOf(t, "etcd")
	all := clusters * machines
	return Fleet{
		Clusters: clusters, Machines: all, SecondsToReady: round(ready.Seconds()),
		WritesPerMachine:    round(float64(stage.LogWrites(t, begin, all)) / float64(all)),
		APIServerCPUSeconds: round((apiServer.CPU - before["kube-apiserver"].CPU).Seconds()),
		EtcdCPUSeconds:      round((etcd.CPU - before["etcd"].CPU).Seconds()),
		APIServerMiB:        round(mebibytes(apiServer.Resident)),
		DroverMiB:           round(mebibytes(plane.UsageOfProcess(t, os.Getpid()).Resident)),
	}
}

func mebibytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }

func round(value float64) float64 { return math.Round(value*10) / 10 }

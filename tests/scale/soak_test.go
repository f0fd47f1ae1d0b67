package scale

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/google/pprof/profile"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/testkit/fakeagent"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/replica"
	"github.com/drover-io/drover/tests/contract/stage"
	"github.com/drover-io/drover/tests/scale/heap"
	"github.com/drover-io/drover/tests/scale/trend"
)

const (
	// soakClusters is the number of clusters at any time: being created, ready, or being deleted.
	soakClusters = 50
	// laps is how often all clusters are removed and the idle server is measured. With fifty clusters, the usage
	// depends on their current states, which hides what the server keeps of deleted ones.
	laps = 12
	// drained is the limit until all clusters are ready, deleted and gone.
	drained = 5 * time.Minute
	// collections is the number of garbage collections after which the figures contain nothing of the last clusters.
	collections = 2
)

// TestSoak creates and deletes clusters for the duration in DROVER_SOAK, and fails if the server's resource usage keeps
// growing.
func TestSoak(t *testing.T) {
	text := os.Getenv("DROVER_SOAK")
	if text == "" {
		t.Skip("DROVER_SOAK is not set: use `make soak`")
	}
	duration, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("DROVER_SOAK: %v", err)
	}
	// This makes the server's heap profile exact enough to attribute memory.
	t.Setenv("GODEBUG", "memprofilerate=4096")
	profiler := "127.0.0.1:" + stage.FreePort(t)
	server := replica.New(t, "drover", stage.AccountKubeconfig(t), "--shutdown-delay=0s", "--profiler-address="+
		profiler)
	st := stage.Start(t, stage.Settings{
		Machines: func(o *fakeagent.Options) { o.Dial = replica.Dial(server) },
		Drover:   func(*testing.T) { server.Start(); server.AwaitReady() },
	})
	replica.Leader(t, time.Minute, server)
	s := &soak{T: t, Stage: st, server: server, namespace: plane.Namespace(t), begin: time.Now(), series: figures(),
		profiler: profiler}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for range laps {
		for end := time.Now().Add(duration / laps); time.Now().Before(end); <-tick.C {
			s.turn(soakClusters)
		}
		for end := time.Now().Add(drained); len(s.there) > 0; <-tick.C {
			s.turn(0)
			if time.Now().After(end) {
				t.Fatalf("%d clusters still exist after %s", len(s.there), drained)
			}
		}
		s.rest()
	}
	s.report(duration)
}

// The live heap, in KiB, that may remain of a deleted cluster. Drover frees its own data with the cluster. The limit
// leaves room for caches that half an hour does not fill, such as those of events. Cluster API keeps some of the
// objects that it has applied (heap.CoreCaches).
const (
	keptOfOne   = 3
	cachedOfOne = 16
)

// figures are the measured values and their growth limits. Leaked goroutines and files would grow by at least one per
// cluster. Resident memory is what the runtime has not returned to the system, so it depends on the peak.
func figures() []*trend.Series {
	return []*trend.Series{
		{Name: "goroutines", Allowed: 20}, {Name: "live heap", Unit: "MiB", Allowed: keptOfOne},
		{Name: "resident memory", Unit: "MiB", Allowed: 24},
		{Name: "open files", Allowed: 5}, {Name: "core's caches", Unit: "MiB", Allowed: cachedOfOne},
	}
}

// Indexes into figures. The limits of both heaps are per cluster.
const (
	goroutines = iota
	liveHeap
	residentMemory
	openFiles
	coreCached
)

const mebibyte = 1 << 20

// soak replaces each cluster that is gone by a new cluster.
type soak struct {
	*testing.T
	*stage.Stage
	server    *replica.Replica
	profiler  string // the server's address
	namespace string
	begin     time.Time
	series    []*trend.Series
	// made counts created clusters. lives counts clusters that became ready, were deleted and are gone.
	made, lives int
	// livesAt are the values of lives after each lap.
	livesAt []int
	// there are clusters that are not gone, and whether they were deleted.
	there map[string]bool
}

// turn deletes ready clusters and creates new ones for clusters that are gone, until the number is right.
func (s *soak) turn(clusters int) {
	s.Helper()
	found := s.find()
	for name := range s.there {
		if found[name] == nil {
			if !s.there[name] {
				s.Fatalf("cluster %s is missing, although it was not deleted", name)
			}
			s.lives++
			delete(s.there, name)
			s.removeConfig(name)
		}
	}
	for name, cluster := range found {
		if cluster.Status.Ready && !s.there[name] {
			s.must(s.Client.Delete(s.Context(), cluster))
			s.there[name] = true
		}
	}
	if s.there == nil {
		s.there = map[string]bool{}
	}
	for len(s.there) < clusters {
		name := fmt.Sprintf("soak-%04d", s.made)
		s.Cluster(s.namespace, name, []string{stage.RKE2, stage.K3s}[s.made%2], stage.Pool("all", "ecw", 1))
		s.there[name] = false
		s.made++
	}
}

func (s *soak) must(err error) {
	s.Helper()
	if client.IgnoreNotFound(err) != nil {
		s.Fatal(err)
	}
}

func (s *soak) find() map[string]*provv1.Cluster {
	s.Helper()
	clusters := &provv1.ClusterList{}
	s.must(s.Client.List(s.Context(), clusters, client.InNamespace(s.namespace)))
	found := map[string]*provv1.Cluster{}
	for i := range clusters.Items {
		found[clusters.Items[i].Name] = &clusters.Items[i]
	}
	return found
}

// removeConfig deletes a cluster's machine config.
func (s *soak) removeConfig(cluster string) {
	s.Helper()
	config := &unstructured.Unstructured{}
	config.SetAPIVersion("rke-machine-config.cattle.io/v1")
	config.SetKind("SimConfig")
	config.SetNamespace(s.namespace)
	config.SetName(cluster + "-all")
	s.must(s.Client.Delete(s.Context(), config))
}

// calm is the number of consecutive measurements without a change after which the server counts as idle.
const calm = 20

// rest takes a sample when the server is idle and has collected the memory of deleted clusters. The requests for its
// metrics make the server collect.
func (s *soak) rest() {
	s.Helper()
	const cycles = "go_gc_cycles_total_gc_cycles_total"
	var last [openFiles + 1]float64
	same := 0
	begun := s.metrics()[cycles]
	plane.Until(s.T, 5*time.Minute, func() string {
		values, before := s.metrics(), last
		last = s.sample(values)
		if same++; last[goroutines] != before[goroutines] || last[openFiles] != before[openFiles] {
			same = 0
		}
		if same < calm || values[cycles] < begun+collections {
			return fmt.Sprintf("%v goroutines and %v files, unchanged in %d looks; %v garbage collections",
				last[goroutines], last[openFiles], same, values[cycles]-begun)
		}
		return ""
	})
	s.livesAt = append(s.livesAt, s.lives)
	cached := heap.HeldBy(s.profile(), heap.CoreCaches) / mebibyte
	if cached == 0 {
		s.Fatal("the profile has no caches of Cluster API: check the names of their packages")
	}
	last[liveHeap] -= cached
	for i, value := range append(last[:], cached) {
		s.series[i].Add(time.Since(s.begin).Seconds(), value)
	}
}

// profile returns the heap profile. It stores one file per lap in the folder DROVER_SOAK_PROFILES, for comparison with
// go tool pprof -base.
func (s *soak) profile() *profile.Profile {
	s.Helper()
	found, err := heap.Read(s.Context(), s.profiler)
	s.must(err)
	if folder := os.Getenv("DROVER_SOAK_PROFILES"); folder != "" {
		file, err := os.Create(filepath.Join(folder, fmt.Sprintf("heap-%02d.pb.gz", len(s.livesAt))))
		s.must(err)
		s.must(found.Write(file))
		s.must(file.Close())
	}
	return found
}

// sample returns the figures in the order of the series. It fails for a missing figure, which would look constant.
func (s *soak) sample(values map[string]float64) [openFiles + 1]float64 {
	s.Helper()
	files, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(s.server.PID()), "fd"))
	s.must(err)
	out := [...]float64{
		goroutines: values["go_goroutines"], liveHeap: values["go_gc_heap_live_bytes"] / mebibyte,
		residentMemory: values["process_resident_memory_bytes"] / mebibyte, openFiles: float64(len(files)),
	}
	for i, value := range out {
		if value == 0 {
			s.Fatalf("the server's metrics have no %s", s.series[i].Name)
		}
	}
	if values["drover_leader"] != 1 {
		s.Fatal("the server does not lead")
	}
	return out
}

func (s *soak) metrics() map[string]float64 {
	s.Helper()
	values, err := s.server.Metrics()
	if err != nil {
		s.Fatalf("the server's metrics are not available: %v", err)
	}
	return values
}

// report writes a table to the file DROVER_SOAK_REPORT, because a passing test prints nothing, and logs for each figure
// whether it grows.
func (s *soak) report(duration time.Duration) {
	s.Helper()
	out := &strings.Builder{}
	fmt.Fprintf(out,
		"soak: %s, %d clusters created, %d of them ready and deleted; when idle, in the last two thirds of the run:\n",
		duration, s.made, s.lives)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "figure\tfirst\tmean\tlast\tgrowth\tallowed\tunit\tverdict\t")
	for _, i := range []int{liveHeap, coreCached} {
		s.series[i].Allowed *= float64(s.lives-s.livesAt[len(s.livesAt)/3]) / 1024
	}
	for _, one := range s.series {
		found, verdict := trend.Of(*one), "flat"
		if found.Growing {
			verdict = "growing"
			s.Errorf("%s: %.1f %s more in the last two thirds of the run", one.Name, found.Growth, one.Unit)
		}
		fmt.Fprintf(table, "%s\t%.1f\t%.1f\t%.1f\t%+.1f\t%.1f\t%s\t%s\t\n", one.Name, found.First, found.Mean,
			found.Last, found.Growth, one.Allowed, one.Unit, verdict)
	}
	_ = table.Flush()
	fmt.Fprintln(out, "after each lap:")
	for _, one := range s.series {
		fmt.Fprintf(out, "%16s %7.1f\n", one.Name, one.Values)
	}
	s.must(os.WriteFile(os.Getenv("DROVER_SOAK_REPORT"), []byte(out.String()), 0o600))
}

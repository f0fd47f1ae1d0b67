package grow

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
	"github.com/drover-io/drover/tests/scale/writes"
)

// readiness watches the Clusters, because lists of a thousand would cost more than the fleet.
type readiness struct {
	changed chan struct{} // has room for one

	mu        sync.Mutex
	appliedAt map[string]time.Time
	readyAt   map[string]time.Time
}

// watchReadiness watches the Clusters until the test ends.
func watchReadiness(t *testing.T) *readiness {
	t.Helper()
	scheme := runtime.NewScheme()
	utilruntime.Must(provv1.AddToScheme(scheme))
	watcher, err := client.NewWithWatch(plane.Config(t, "benchmark"), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	r := &readiness{changed: make(chan struct{}, 1), appliedAt: map[string]time.Time{},
		readyAt: map[string]time.Time{}}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var watching sync.WaitGroup
	watching.Go(func() {
		for ctx.Err() == nil {
			r.watch(ctx, watcher)
		}
	})
	t.Cleanup(func() { cancel(); watching.Wait() })
	return r
}

// watch notes ready Clusters until the stream ends. Its first events are all Clusters.
func (r *readiness) watch(ctx context.Context, watcher client.WithWatch) {
	stream, err := watcher.Watch(ctx, &provv1.ClusterList{})
	if err != nil {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
		return
	}
	defer stream.Stop()
	for event := range stream.ResultChan() {
		if cluster, ok := event.Object.(*provv1.Cluster); ok {
			r.note(cluster)
		}
	}
}

func (r *readiness) note(cluster *provv1.Cluster) {
	ready := stage.Condition(cluster.Status.Conditions, provv1.ConditionReady)
	if !cluster.Status.Ready || ready.Status != rkev1.ConditionTrue {
		return
	}
	r.mu.Lock()
	if r.readyAt[cluster.Name].IsZero() {
		r.readyAt[cluster.Name] = time.Now()
	}
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

func (r *readiness) applied(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.appliedAt[name] = time.Now()
}

// unready returns the applied clusters that were never ready, sorted.
func (r *readiness) unready() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for name := range r.appliedAt {
		if r.readyAt[name].IsZero() {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// quantiles returns the median and the maximum of the seconds until clusters were ready.
func (r *readiness) quantiles(from, to int) (median, most float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var took []float64
	for i := from; i < to; i++ {
		took = append(took, r.readyAt[clusterName(i)].Sub(r.appliedAt[clusterName(i)]).Seconds())
	}
	slices.Sort(took)
	return round(took[len(took)/2]), round(took[len(took)-1])
}

// changes returns the changes that the API server has stored.
func (f *fleet) changes() map[string]int64 {
	f.Helper()
	found, err := writes.Changes(f.Context(), plane.Config(f, "benchmark"))
	f.must(err)
	return found
}

func (f *fleet) since(before map[string]int64) map[string]int64 {
	return writes.Since(before, f.changes())
}

// metrics returns the server's metrics by name and labels. It returns none if the server does not answer.
func (f *fleet) metrics() map[string]float64 {
	values := map[string]float64{}
	response, err := http.Get("http://" + f.server.Health + "/metrics")
	if err != nil {
		return values
	}
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		name, text, _ := strings.Cut(lines.Text(), " ")
		if value, err := strconv.ParseFloat(text, 64); err == nil {
			values[name] = value
		}
	}
	return values
}

// database returns the size of etcd's file in MiB.
func (f *fleet) database() float64 {
	f.Helper()
	file, err := os.Stat(filepath.Join(plane.Dir(f), "etcd", "member", "snap", "db"))
	f.must(err)
	return mebibytes(file.Size())
}

// profile stores a profile of the server after a while, if DROVER_SCALE_PROFILES names a folder.
func (f *fleet) profile(name, path string, after time.Duration) {
	if f.profiles == "" {
		return
	}
	get := func() {
		select {
		case <-time.After(after):
		case <-f.Context().Done():
			return
		}
		response, err := http.Get("http://" + f.profiler + "/debug/pprof/" + path)
		if err != nil {
			return
		}
		defer response.Body.Close()
		if data, err := io.ReadAll(response.Body); err == nil && response.StatusCode == http.StatusOK {
			_ = os.WriteFile(filepath.Join(f.profiles, name+".pb.gz"), data, 0o600)
		}
	}
	if after == 0 {
		get()
		return
	}
	go get()
}

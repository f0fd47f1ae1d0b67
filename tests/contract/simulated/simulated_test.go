package simulated

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

func TestMain(m *testing.M) { os.Exit(stage.Main(m)) }

const (
	rke2 = "v1.36.2+rke2r1"
	k3s  = "v1.36.2+k3s1"
	// quiet is how long ready clusters are watched: Drover writes nothing at all, Cluster API may count replicas until rollUp.
	quiet  = 60 * time.Second
	rollUp = 45 * time.Second
)

func TestOneClusterSimulated(t *testing.T) {
	lifeOfClusters(t, stage.Settings{}, map[string]string{"rke2": rke2, "k3s": k3s})
}

// lifeOfClusters tells the life of clusters with one server and two workers each, side by side: applied, ready, at rest,
// deleted without a trace. Each has the given version.
func lifeOfClusters(t *testing.T, s stage.Settings, versions map[string]string) {
	t.Helper()
	const machines = 3
	st := stage.Start(t, s)
	namespace := plane.Namespace(t)
	begin := time.Now()
	for name, version := range versions {
		st.Cluster(namespace, name, version, stage.Pool("server", "ec", 1), stage.Pool("worker", "w", machines-1))
	}
	names := slices.Sorted(maps.Keys(versions))
	awaitRest(t, st, namespace, names, machines, begin)
	for _, name := range names {
		st.ExpectNodes(namespace, name, machines)
	}
	identities := st.ManagementNames(namespace)

	for name := range versions {
		if err := st.Client.Delete(t.Context(), &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	for name := range versions {
		gone := &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		plane.Until(t, 2*time.Minute, func() string { return st.Gone(gone) })
	}
	st.AwaitNothingLeft(namespace, identities)
}

// awaitRest waits until clusters are ready and watches them from then on. Ready speaks of the plans of all machines, so Drover
// has nothing left to write then; Cluster API finds the nodes by itself and may say a moment later that the last machine runs.
func awaitRest(t *testing.T, st *stage.Stage, namespace string, names []string, machines int, begin time.Time) {
	t.Helper()
	for _, name := range names {
		plane.Until(t, 10*time.Minute, func() string { return st.WaitingFor(namespace, name) })
	}
	ready := time.Now()
	t.Logf("ready after %s", ready.Sub(begin).Round(10*time.Millisecond))
	st.AwaitMachines(namespace, machines*len(names))
	settled := time.Now()
	t.Logf("all machines run %s later", settled.Sub(ready).Round(10*time.Millisecond))
	select {
	case <-time.After(quiet):
	case <-t.Context().Done():
	}
	stage.LogWrites(t, begin, machines*len(names))
	stage.LogLast(t, ready)
	stage.ExpectRest(t, settled, rollUp)
}

func TestTwentyClustersSimulated(t *testing.T) {
	const clusters, machines = 20, 4
	st := stage.Start(t, stage.Settings{})
	namespace := plane.Namespace(t)
	begin := time.Now()
	var names []string
	for i := range clusters {
		version := rke2
		if i%2 == 1 {
			version = k3s
		}
		names = append(names, fmt.Sprintf("fleet-%02d", i))
		st.Cluster(namespace, names[i], version, stage.Pool("server", "ec", 1), stage.Pool("worker", "w", machines-1))
	}
	awaitRest(t, st, namespace, names, machines, begin)
}

package simulated

import (
	"fmt"
	"os"
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
	// quiet is how long a ready cluster is watched for writes.
	quiet = 60 * time.Second
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
	for name := range versions {
		plane.Until(t, 3*time.Minute, func() string { return st.WaitingFor(namespace, name) })
		st.ExpectNodes(namespace, name, machines)
	}
	t.Logf("ready after %s", time.Since(begin).Round(10*time.Millisecond))
	st.AwaitMachines(namespace, machines*len(versions))
	stage.AwaitQuiet(t, time.Minute)
	stage.LogWrites(t, begin, machines*len(versions))
	rest(t)

	for name := range versions {
		if err := st.Client.Delete(t.Context(), &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	for name := range versions {
		gone := &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		plane.Until(t, 2*time.Minute, func() string { return st.Gone(gone) })
	}
	st.AwaitNothingLeft(namespace)
}

// rest watches settled clusters for a while, in which nothing may be written.
func rest(t *testing.T) {
	t.Helper()
	settled := time.Now()
	select {
	case <-time.After(quiet):
	case <-t.Context().Done():
	}
	stage.ExpectNoWrites(t, settled)
}

func TestTwentyClustersSimulated(t *testing.T) {
	const clusters, machines = 20, 4
	st := stage.Start(t, stage.Settings{})
	namespace := plane.Namespace(t)
	begin := time.Now()
	for i := range clusters {
		version := rke2
		if i%2 == 1 {
			version = k3s
		}
		st.Cluster(namespace, fmt.Sprintf("fleet-%02d", i), version, stage.Pool("server", "ec", 1), stage.Pool("worker", "w", machines-1))
	}
	for i := range clusters {
		plane.Until(t, 10*time.Minute, func() string { return st.WaitingFor(namespace, fmt.Sprintf("fleet-%02d", i)) })
	}
	t.Logf("all ready after %s", time.Since(begin).Round(10*time.Millisecond))
	st.AwaitMachines(namespace, clusters*machines)
	stage.AwaitQuiet(t, time.Minute)
	stage.LogWrites(t, begin, clusters*machines)
	rest(t)
}

package stage

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/tests/contract/plane"
)

// The versions of clusters in stories.
const (
	RKE2 = "v1.36.2+rke2r1"
	K3s  = "v1.36.2+k3s1"
)

const (
	// quiet is how long ready clusters are watched. Drover must write nothing. Cluster API may count replicas until
	// rollUp.
	quiet  = 60 * time.Second
	rollUp = 45 * time.Second
	// underWay is the limit until the management Cluster repeats that its Cluster is ready.
	underWay = 2 * time.Second
)

// Clusters are clusters of one namespace. Each has one server, and all other machines are workers.
type Clusters struct {
	st        *Stage
	Namespace string
	// Machines is the number of machines of each cluster.
	Machines int32
	names    []string
	begin    time.Time
	// ready is the time at which the last of them became ready.
	ready time.Time
}

// On returns the same clusters on another stage that has their objects now.
func (c *Clusters) On(st *Stage) *Clusters {
	moved := *c
	moved.st, moved.begin = st, time.Now()
	return &moved
}

// Apply applies clusters in parallel, each with the given version.
func (st *Stage) Apply(namespace string, machines int32, versions map[string]string) *Clusters {
	st.t.Helper()
	c := &Clusters{st: st, Namespace: namespace, Machines: machines, names: slices.Sorted(maps.Keys(versions)),
		begin: time.Now()}
	for _, name := range c.names {
		st.Cluster(namespace, name, versions[name], Pool("server", "ec", 1), Pool("worker", "w", machines-1))
	}
	return c
}

// ApplyTwenty applies twenty clusters of four machines, half of each distribution.
func (st *Stage) ApplyTwenty(namespace string) *Clusters {
	st.t.Helper()
	versions := map[string]string{}
	for i := range 20 {
		versions[fmt.Sprintf("fleet-%02d", i)] = []string{RKE2, K3s}[i%2]
	}
	return st.Apply(namespace, 4, versions)
}

// AwaitReady waits until all are ready and have their nodes.
func (c *Clusters) AwaitReady() {
	t := c.st.t
	t.Helper()
	for _, name := range c.names {
		plane.Until(t, 10*time.Minute, func() string { return c.st.WaitingFor(c.Namespace, name) })
	}
	c.ready = time.Now()
	t.Logf("%d clusters with %d machines ready after %s", len(c.names), c.Machines,
		c.ready.Sub(c.begin).Round(10*time.Millisecond))
	c.st.AwaitMachines(c.Namespace, c.all())
	t.Logf("all machines run %s later", time.Since(c.ready).Round(10*time.Millisecond))
	for _, name := range c.names {
		c.st.ExpectNodes(c.Namespace, name, int(c.Machines))
	}
	plane.Until(t, time.Minute, c.openLog)
}

// openLog returns a provisioning log without its last line, or "". A line may wait for the next second. Clusters that
// were moved have no log.
func (c *Clusters) openLog() string {
	for _, name := range c.st.ManagementNames(c.Namespace) {
		log := &corev1.ConfigMap{}
		key := client.ObjectKey{Namespace: name, Name: provv1.ProvisioningLogName}
		if err := c.st.Client.Get(c.st.t.Context(), key, log); client.IgnoreNotFound(err) != nil {
			return err.Error()
		}
		if last := log.Data[provv1.ProvisioningLogLastKey]; last != "" && last != "provisioning done" {
			return "the log of " + name + " ends with " + last
		}
	}
	return ""
}

// all returns the number of machines of all clusters.
func (c *Clusters) all() int { return int(c.Machines) * len(c.names) }

// WatchRest watches settled clusters for a minute in which nothing may be written. Cluster API may count their machines
// for a moment longer. Drover must write nothing from the moment at which a cluster is ready, because that covers the
// plans of all machines.
func WatchRest(t *testing.T, all ...*Clusters) {
	t.Helper()
	settled := time.Now()
	select {
	case <-time.After(quiet):
	case <-t.Context().Done():
	}
	LogLast(t, settled)
	ExpectRest(t, settled, rollUp)
	for _, c := range all {
		c.expectUntouched()
	}
}

// expectUntouched fails for every write by Drover itself to these clusters since they were ready.
func (c *Clusters) expectUntouched() {
	t := c.st.t
	t.Helper()
	identities := c.st.ManagementNames(c.Namespace)
	for _, write := range plane.Writes(t, DroverAgent, c.ready.Add(underWay)) {
		theirs := write.Namespace == c.Namespace || slices.Contains(identities, write.Namespace) ||
			slices.Contains(identities, write.Name)
		if theirs && part(write) == droverItself {
			t.Errorf("a write to ready clusters, %s later: %s", write.Time.Sub(c.ready).Round(time.Millisecond),
				describe(write))
		}
	}
}

// LogWrites logs the number of writes per machine since the clusters were applied.
func (c *Clusters) LogWrites() { LogWrites(c.st.t, c.begin, c.all()) }

// Delete deletes all clusters and waits until none of their objects is left.
func (c *Clusters) Delete() {
	t := c.st.t
	t.Helper()
	identities := c.st.ManagementNames(c.Namespace)
	deleted := make([]*provv1.Cluster, len(c.names))
	for i, name := range c.names {
		deleted[i] = &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: name}}
		if err := c.st.Client.Delete(t.Context(), deleted[i]); err != nil {
			t.Fatal(err)
		}
	}
	for _, cluster := range deleted {
		plane.Until(t, 2*time.Minute, func() string { return c.st.Gone(cluster) })
	}
	c.st.AwaitNothingLeft(c.Namespace, identities)
}

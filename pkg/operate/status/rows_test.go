package status

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/testkit/build"
)

var noon = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

// after returns the time so many seconds after noon.
func after(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

func cluster(pools ...provv1.RKEMachinePool) *provv1.Cluster {
	c := build.Cluster("demo", pools...)
	c.CreationTimestamp = metav1.NewTime(noon)
	return c
}

func set(c *provv1.Cluster, kind, status, reason, message string, seconds int) {
	conditions.Set(&c.Status.Conditions,
		conditions.Condition{Type: kind, Status: status, Reason: reason, Message: message}, after(seconds))
}

func machine(name, roles string, options ...build.MachineOption) *clusterv1.Machine {
	m := build.Machine("demo", name, roles, options...)
	m.CreationTimestamp = metav1.NewTime(noon)
	return m
}

func setMeta(m *clusterv1.Machine, kind, status, reason, message string, seconds int) {
	conditions.SetMeta(&m.Status.Conditions,
		conditions.Condition{Type: kind, Status: status, Reason: reason, Message: message}, 1, after(seconds))
}

func TestOfCluster(t *testing.T) {
	servers := build.Pool("servers", "ec", 3)
	workers := build.Pool("workers", "w", 0)
	workers.Quantity, workers.AutoscalingMinSize, workers.AutoscalingMaxSize = nil, new(int32(2)), new(int32(9))
	workers.Paused = true
	c := cluster(servers, workers)
	c.Spec.KubernetesVersion, c.Status.ClusterName = "v1.36.2+k3s1", "c-m-abcdefgh"
	set(c, "RKECluster", "True", "", "", 2)
	set(c, "Stalled", "False", "", "", 2)
	set(c, "Ready", "Unknown", "Waiting", "configuring server\n token=hunter2", 3)
	want := Cluster{
		Namespace: "fleet-default", Name: "demo", ID: "c-m-abcdefgh", State: Waiting, Reason: "Waiting",
		Message: "configuring server token=***", Since: new(after(3)), Version: "v1.36.2+k3s1", Distribution: "k3s",
		Pools: []Pool{
			{Name: "servers", Roles: []string{"etcd", "controlplane"}, Wanted: 3},
			{Name: "workers", Roles: []string{"worker"}, Wanted: 2, Scaled: true, Paused: true},
		},
		Conditions: []Condition{
			{Type: "RKECluster", Status: "True", Since: new(after(2))},
			{Type: "Stalled", Status: "False", Since: new(after(2))},
			{Type: "Ready", Status: "Unknown", Reason: "Waiting", Message: "configuring server token=***",
				Since: new(after(3))},
		},
		Stages: []Stage{
			{Name: "objects", Begin: noon, End: new(after(2))},
			{Name: "bootstrap", Begin: after(2)},
		},
		Created: noon,
	}
	if diff := cmp.Diff(want, OfCluster(c)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOfCluster_Stages(t *testing.T) {
	reached := func(c *provv1.Cluster, seconds int) {
		c.Status.Ready = true
		set(c, "RKECluster", "True", "", "", 2)
		set(c, "Reconciling", "False", "", "", seconds)
	}
	objects := Stage{Name: "objects", Begin: noon, End: new(after(2))}
	bootstrap := Stage{Name: "bootstrap", Begin: after(2), End: new(after(90))}
	for name, tc := range map[string]struct {
		given func(c *provv1.Cluster)
		want  []Stage
	}{
		"a new cluster": {
			given: func(*provv1.Cluster) {},
			want:  []Stage{{Name: "objects", Begin: noon}},
		},
		"an invalid cluster still has no objects": {
			given: func(c *provv1.Cluster) { set(c, "RKECluster", "False", "InvalidSpec", "bad", 2) },
			want:  []Stage{{Name: "objects", Begin: noon}},
		},
		"machines join": {
			given: func(c *provv1.Cluster) {
				reached(c, 90)
				set(c, "Ready", "Unknown", "Waiting", "joining", 3)
			},
			want: []Stage{objects, bootstrap, {Name: "join", Begin: after(90)}},
		},
		"the cluster is ready": {
			given: func(c *provv1.Cluster) {
				reached(c, 90)
				set(c, "Ready", "True", "", "", 120)
			},
			want: []Stage{objects, bootstrap, {Name: "join", Begin: after(90), End: new(after(120))}},
		},
		"the cluster was ready before its last change": {
			given: func(c *provv1.Cluster) {
				reached(c, 90)
				set(c, "Ready", "True", "", "", 90000)
			},
			want: []Stage{objects, bootstrap},
		},
		"the cluster was ready before the change that it is at": {
			given: func(c *provv1.Cluster) {
				reached(c, 90)
				set(c, "Ready", "Unknown", "Waiting", "upgrading", 90000)
			},
			want: []Stage{objects, bootstrap},
		},
		"an imported cluster has none": {
			given: func(c *provv1.Cluster) { c.Spec.RKEConfig = nil },
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := cluster()
			tc.given(c)
			if diff := cmp.Diff(tc.want, OfCluster(c).Stages); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestOfMachine(t *testing.T) {
	m := machine("demo-servers-a", "ec", build.WithNode("node-a"))
	m.Labels[rkev1.MachinePoolNameLabel] = "servers"
	m.Spec.ProviderID = "k3s://node-a"
	m.Spec.InfrastructureRef.Kind, m.Spec.InfrastructureRef.Name = "DockerMachine", "demo-servers-a"
	m.Status.Addresses = clusterv1.MachineAddresses{{Type: "InternalIP", Address: "10.0.0.1"},
		{Type: "ExternalIP", Address: "10.0.0.1"}, {Type: "Hostname", Address: "node-a"}}
	m.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: "v1.36.2+k3s1", OSImage: "Debian 13",
		ContainerRuntimeVersion: "containerd://2.1"}
	m.Status.LastUpdated = metav1.NewTime(after(60))
	setMeta(m, "InfrastructureReady", "True", "Ready", "", 20)
	setMeta(m, "NodeHealthy", "True", "NodeHealthy", "", 70)
	setMeta(m, "Paused", "False", "NotPaused", "", 1)
	setMeta(m, "Reconciled", "Unknown", "Waiting", "upgrading", 80)
	want := Machine{
		Namespace: "fleet-default", Name: "demo-servers-a", Cluster: "demo", Pool: "servers",
		Roles: []string{"etcd", "controlplane"}, State: Running, Since: new(after(70)), Node: "node-a",
		Version: "v1.36.2+k3s1", OS: "Debian 13", Runtime: "containerd://2.1", ProviderID: "k3s://node-a",
		Addresses: []string{"10.0.0.1", "node-a"}, Infrastructure: "DockerMachine",
		InfrastructureName: "demo-servers-a",
		Conditions: []Condition{
			{Type: "InfrastructureReady", Status: "True", Since: new(after(20))},
			{Type: "NodeHealthy", Status: "True", Since: new(after(70))},
			{Type: "Paused", Status: "False", Since: new(after(1))},
			{Type: "Reconciled", Status: "Unknown", Reason: "Waiting", Message: "upgrading", Since: new(after(80))},
		},
		Stages: []Stage{
			{Name: "infrastructure", Begin: noon, End: new(after(20))},
			{Name: "node", Begin: after(20), End: new(after(60))},
		},
		Created: noon,
	}
	if diff := cmp.Diff(want, OfMachine(m)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	setMeta(m, "InfrastructureReady", "False", "Gone", "", 500)
	setMeta(m, "InfrastructureReady", "True", "Ready", "", 501)
	if got := OfMachine(m).Stages; got != nil {
		t.Errorf("the host was ready again after the node was known, so the stages are unknown; got %v", got)
	}
}

// Rows of 10,000 machines go to browsers.
func TestOfMachine_IsSmall(t *testing.T) {
	m := machine("demo-servers-a", "ec", build.WithNode("node-a"))
	for _, kind := range []string{"Available", "Ready", "UpToDate", "BootstrapConfigReady", "InfrastructureReady",
		"NodeReady", "NodeHealthy", "PlanApplied", "Reconciled", "HealthCheckSucceeded"} {
		setMeta(m, kind, "True", kind, strings.Repeat("All is well. ", 20), 20)
	}
	setMeta(m, "Updating", "False", "NotUpdating", "", 20)
	setMeta(m, "Deleting", "False", "NotDeleting", "", 20)
	setMeta(m, "Paused", "False", "NotPaused", "", 20)
	text, err := json.Marshal(OfMachine(m))
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 1600 {
		t.Errorf("the row of a healthy machine has %d bytes:\n%s", len(text), text)
	}
}

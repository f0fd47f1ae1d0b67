package preview

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/pkg/decide/topology"
)

var start = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

// world is a stable cluster: three servers that are not workers, and two workers. Servers and workers have one pool
// each.
type world struct {
	cluster  *provv1.Cluster
	configs  map[topology.ConfigRef]*unstructured.Unstructured
	snapshot planner.Snapshot
	data     map[string]map[string][]byte
	features map[string]string
}

func release(version string) distro.Release { return distro.Release{Version: version, Known: true} }

func machinePool(name string, quantity int32, roles string) provv1.RKEMachinePool {
	return provv1.RKEMachinePool{
		Name: name, Quantity: new(quantity), NodeConfig: &corev1.ObjectReference{Kind: "PodConfig", Name: name},
		EtcdRole: strings.Contains(roles, "e"), ControlPlaneRole: strings.Contains(roles, "c"),
		WorkerRole: strings.Contains(roles, "w"),
	}
}

func podConfig(name, size string) *unstructured.Unstructured {
	config := &unstructured.Unstructured{Object: map[string]any{"size": size, "ignored": "x"}}
	config.SetAPIVersion(topology.MachineConfigVersion)
	config.SetKind("PodConfig")
	config.SetNamespace("fleet-default")
	config.SetName(name)
	return config
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{data: map[string]map[string][]byte{}, configs: map[topology.ConfigRef]*unstructured.Unstructured{}}
	w.cluster = &provv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "demo",
			Annotations: map[string]string{rkev1.InstanceAnnotation: "x"}},
		Spec: provv1.ClusterSpec{KubernetesVersion: "v1.36.2+rke2r1", RKEConfig: &provv1.RKEConfig{
			MachinePools: []provv1.RKEMachinePool{machinePool("server", 3, "ec"), machinePool("worker", 2, "w")},
		}},
		Status: provv1.ClusterStatus{ClusterName: "c-m-1"},
	}
	for _, name := range []string{"server", "worker", "other"} {
		w.configs[topology.ConfigRef{APIVersion: topology.MachineConfigVersion, Kind: "PodConfig",
			Name: name}] = podConfig(name, "small")
	}
	w.snapshot = planner.Snapshot{Now: start, Cluster: &planner.Cluster{InfrastructureProvisioned: true}}
	given := w.input(w.cluster, w.configs)
	in := Input{Release: release, Snapshot: w.snapshot}
	s, err := in.sideOf(given)
	if err != nil {
		t.Fatal(err)
	}
	w.snapshot = s.snapshot
	for i, name := range []string{"server-1", "server-2", "server-3", "worker-1", "worker-2"} {
		p := s.pools[strings.Split(name, "-")[0]]
		w.snapshot.Machines = append(w.snapshot.Machines, planner.Machine{
			Name: name, UID: types.UID(name), Labels: maps.Clone(p.labels), Annotations: maps.Clone(p.annotations),
			InfrastructureReady: true,
			Plan:                &planner.PlanSecret{Name: name + "-machine-plan"},
			Addresses:           []planner.Address{{Type: "InternalIP", Address: fmt.Sprintf("10.0.0.%d", i+1)}},
		})
	}
	w.settle(t)
	return w
}

func (w *world) input(cluster *provv1.Cluster,
	configs map[topology.ConfigRef]*unstructured.Unstructured) topology.Input {
	schema := &mgmtv3.DynamicSchemaSpec{ResourceFields: map[string]mgmtv3.Field{"size": {Type: "string"}}}
	return topology.Input{
		Cluster: cluster, MachineConfigs: configs, Schemas: map[string]*mgmtv3.DynamicSchemaSpec{"podconfig": schema},
		Replicas: map[string]int32{"demo-server": 3, "demo-worker": 2},
	}
}

// settle performs decisions and plays the agents until nothing is left to do.
func (w *world) settle(t *testing.T) {
	t.Helper()
	for range 40 {
		d := planner.Decide(w.snapshot)
		w.snapshot.ControlPlane.Status = d.Status
		for _, effect := range d.Effects {
			w.carryOut(t, effect)
		}
		w.snapshot.Connected = true
		if d.Wait == nil {
			return
		}
	}
	t.Fatal("the cluster never settles")
}

func (w *world) machine(name string) *planner.Machine {
	for i := range w.snapshot.Machines {
		if w.snapshot.Machines[i].Name == name {
			return &w.snapshot.Machines[i]
		}
	}
	return nil
}

func (w *world) carryOut(t *testing.T, effect planner.Effect) {
	t.Helper()
	switch e := effect.(type) {
	case planner.CreateTokens:
		w.snapshot.Tokens = planner.Tokens{Exists: true, Values: render.Tokens{Server: "s", Agent: "a"}}
	case planner.MarkMachine:
		w.machine(e.Machine).Marks = e.Marks
	case planner.DeliverPlan:
		m := w.machine(e.Machine)
		m.Marks = e.Marks
		data, err := nodeplan.Deliver(w.data[e.Machine],
			nodeplan.Delivery{Plan: e.Delivery.Plan, MaxFailures: e.Delivery.MaxFailures,
				FailureThreshold: e.Delivery.FailureThreshold})
		if err != nil {
			t.Fatal(err)
		}
		data[nodeplan.KeyAppliedChecksum] = []byte(nodeplan.Checksum(e.Delivery.Plan))
		data, _ = nodeplan.Applied(data)
		decoded, err := nodeplan.Decode(e.Delivery.Plan)
		if err != nil {
			t.Fatal(err)
		}
		statuses := map[string]plan.ProbeStatus{}
		for name := range decoded.Probes {
			statuses[name] = plan.ProbeStatus{Healthy: true}
		}
		data[nodeplan.KeyProbeStatuses], _ = nodeplan.EncodeProbeStatuses(statuses)
		w.data[e.Machine] = data
		if m.Plan.State, err = nodeplan.Parse(e.Machine, data); err != nil {
			t.Fatal(err)
		}
		m.Plan.ProbesPassed, m.HasNode, m.KubeletVersion = true, true, w.cluster.Spec.KubernetesVersion
	}
}

// preview computes the effect of an edit.
func (w *world) preview(t *testing.T, edit func(*provv1.Cluster), sizes map[string]string) Report {
	t.Helper()
	before := w.input(w.cluster, w.configs)
	edited := w.cluster.DeepCopy()
	edit(edited)
	configs := maps.Clone(w.configs)
	for ref := range configs {
		if size := sizes[ref.Name]; size != "" {
			configs[ref] = podConfig(ref.Name, size)
		}
	}
	r, err := Compute(Input{
		Before: &before, After: w.input(edited, configs), Snapshot: w.snapshot,
		Release: func(version string) distro.Release {
			return distro.Release{Version: version, Known: true, Features: w.features}
		},
		Machines: map[string]MachineFacts{"worker-1": {Created: start.Add(time.Hour)}, "worker-2": {Created: start}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

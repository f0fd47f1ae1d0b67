package topology_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
)

const instance = "instance-1"

var podRef = topology.ConfigRef{APIVersion: topology.MachineConfigVersion, Kind: "PodConfig", Name: "nc-demo"}

// podSchema is the schema of the driver "pod".
func podSchema() *mgmtv3.DynamicSchemaSpec {
	return &mgmtv3.DynamicSchemaSpec{ResourceFields: map[string]mgmtv3.Field{
		"etcdTmpfs": {Type: "string", Create: true, Update: true},
		"image":     {Type: "string", Create: true, Update: true},
		"userdata":  {Type: "string", Create: true, Update: true},
	}}
}

// podConfig is the machine config of the recorded template hash 4d5c3958.
func podConfig() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": topology.MachineConfigVersion,
		"kind":       "PodConfig",
		"metadata":   map[string]any{"namespace": "fleet-default", "name": "nc-demo"},
		"etcdTmpfs":  "512Mi",
		"image":      "rancher/systemd-node:v0.0.8",
		"userdata":   "",
		"unknown":    "left out",
	}}
}

// demo is a prepared cluster with one pool, and the facts it needs.
func demo(t *testing.T, edits ...func(*provv1.Cluster)) topology.Input {
	t.Helper()
	quantity := int32(3)
	in := raw(&provv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "demo", UID: "uid-of-demo"},
		Spec: provv1.ClusterSpec{
			KubernetesVersion: "v1.36.2+rke2r1",
			RKEConfig: &provv1.RKEConfig{MachinePools: []provv1.RKEMachinePool{{
				Name: "pool1", EtcdRole: true, ControlPlaneRole: true, WorkerRole: true, Quantity: &quantity,
				NodeConfig: &corev1.ObjectReference{Kind: "PodConfig", Name: "nc-demo"},
			}}},
		},
		Status: provv1.ClusterStatus{ClusterName: "c-m-q5wzxk7d"},
	})
	for _, edit := range edits {
		edit(in.Cluster)
	}
	return prepare(t, in)
}

func raw(cluster *provv1.Cluster) topology.Input {
	in := topology.Input{
		Cluster:        cluster,
		MachineConfigs: map[topology.ConfigRef]*unstructured.Unstructured{podRef: podConfig()},
		Schemas:        map[string]*mgmtv3.DynamicSchemaSpec{"podconfig": podSchema()},
		Credentials:    map[string]bool{"cattle-global-data:cc-known": true, "known": true},
	}
	return in
}

func prepare(t *testing.T, in topology.Input) topology.Input {
	t.Helper()
	prepared, err := topology.Prepare(in.Cluster, instance, in.Schemas)
	if err != nil {
		t.Fatalf("prepare: %v", err)
	}
	if prepared != nil {
		in.Cluster = prepared
	}
	return in
}

func pool(cluster *provv1.Cluster, i int) *provv1.RKEMachinePool {
	return &cluster.Spec.RKEConfig.MachinePools[i]
}

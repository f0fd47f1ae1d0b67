package capi

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/remote"
)

// The watch of one pool's hosts stands still. A pool with hosts of another kind gets its Machines.
func TestThrifty_AStuckWatchStopsNoOtherPool(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		api, agent := newPlane(t), remote.DefaultClusterAPIUserAgent(name)
		api.Lag(agent, func(resource string) time.Duration {
			if resource == "hosts.infrastructure.cluster.x-k8s.io" {
				return 1000 * time.Hour
			}
			return 0
		})
		end := startThrifty(t, api)
		time.Sleep(time.Minute)
		if err := api.Add(otherPool()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		machines := 0
		for _, machine := range api.Objects(clusterv1.GroupVersion.WithKind("Machine")) {
			if machine.GetLabels()["set"] == "other" {
				machines++
			}
		}
		if machines != 2 {
			t.Errorf("the other pool has %d Machines, want 2", machines)
		}
		end()
	})
}

// otherPool has two Machines. Their hosts are of the kind Config.
func otherPool() *clusterv1.MachineSet {
	labels := map[string]string{"set": "other", clusterv1.ClusterNameLabel: "demo"}
	return &clusterv1.MachineSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet"},
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: "other", Labels: labels},
		Spec: clusterv1.MachineSetSpec{ClusterName: "demo", Replicas: new(int32(2)),
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"set": "other"}},
			Template: machineTemplate("other", plainConfig),
		},
	}
}

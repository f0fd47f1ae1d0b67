package rig

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// After a stop, a cluster whose machines boot again still has its old nodes and conditions. missingNodes must not count
// them.
func TestMissingNodes(t *testing.T) {
	since := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	node := func(name string, ready corev1.ConditionStatus) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue},
				{Type: corev1.NodeReady, Status: ready},
			}}}
	}
	lease := func(name string, age time.Duration) coordinationv1.Lease {
		return coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: coordinationv1.LeaseSpec{RenewTime: new(metav1.NewMicroTime(since.Add(-age)))}}
	}
	never := coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
	tests := map[string]struct {
		nodes    []corev1.Node
		leases   []coordinationv1.Lease
		machines int
		want     string
	}{
		"without a node":    {machines: 1, want: "waiting for its nodes, 0 of 1 are ready"},
		"without a machine": {want: "waiting for its nodes, 0 of 1 are ready"},
		"a ready node with a new lease": {nodes: []corev1.Node{node("one", "True")},
			leases: []coordinationv1.Lease{lease("one", -time.Second)}, machines: 1},
		"a ready node with a lease from the start": {nodes: []corev1.Node{node("one", "True")},
			leases: []coordinationv1.Lease{lease("one", 0)}, machines: 1},
		"a node that is not ready": {nodes: []corev1.Node{node("one", "False")},
			leases: []coordinationv1.Lease{lease("one", -1)}, machines: 1,
			want: "waiting for its nodes, 0 of 1 are ready"},
		"a node with an old lease": {nodes: []corev1.Node{node("one", "True")},
			leases: []coordinationv1.Lease{lease("one", time.Second)}, machines: 1,
			want: "waiting for its nodes, 0 of 1 are ready"},
		"a node without a renewed lease": {nodes: []corev1.Node{node("one", "True")},
			leases: []coordinationv1.Lease{never}, machines: 1, want: "waiting for its nodes, 0 of 1 are ready"},
		"one of two nodes": {nodes: []corev1.Node{node("one", "True"), node("two", "True")},
			leases: []coordinationv1.Lease{lease("one", -1)}, machines: 2,
			want: "waiting for its nodes, 1 of 2 are ready"},
		"one node, and one of a deleted machine": {nodes: []corev1.Node{node("one", "True"), node("old", "Unknown")},
			leases: []coordinationv1.Lease{lease("one", -1)}, machines: 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := missingNodes(tt.nodes, tt.leases, tt.machines, since); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// The error shows the output of failed pods even after the machine was replaced and its pods were deleted.
func TestFailures_OutliveTheirPods(t *testing.T) {
	clients := fake.NewClientset(
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: clusterNamespace, Name: "first", UID: "1"},
			Status: corev1.PodStatus{Phase: corev1.PodFailed}},
	)
	f := &follower{clients: clients}
	if got := f.failures(); got != "" {
		t.Errorf("without failures: got %q", got)
	}
	f.noteFailures(t.Context())
	f.noteFailures(t.Context())
	if err := clients.CoreV1().Pods(clusterNamespace).Delete(t.Context(), "first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.noteFailures(t.Context())
	if got, want := f.failures(),
		"1 pods failed; the output of the last one:\npod first (Failed):\nfake logs\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

package planner

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-io/drover/pkg/decide/planner"
)

func TestAddReports(t *testing.T) {
	at := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	condition := func(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message,
			LastTransitionTime: metav1.NewTime(at)}
	}
	for name, tc := range map[string]struct {
		conditions []metav1.Condition
		want       planner.Machine
	}{
		"Cluster API has reported nothing": {},
		"the node is healthy": {
			conditions: []metav1.Condition{condition("NodeHealthy", "True", "Ok", "")},
		},
		"the node is not healthy": {
			conditions: []metav1.Condition{condition("NodeHealthy", "False", "NodeNotHealthy",
				"* Node.Ready: the kubelet starts\n* Node.DiskPressure: the disk is full")},
			want: planner.Machine{NodeProblem: "Node.Ready: the kubelet starts"},
		},
		"the problem has no message": {
			conditions: []metav1.Condition{condition("NodeHealthy", "Unknown", "InspectionFailed", "")},
			want:       planner.Machine{NodeProblem: "InspectionFailed"},
		},
		"it is paused": {
			conditions: []metav1.Condition{condition("Paused", "True", "Paused", "")},
			want:       planner.Machine{Paused: true, ResumedAt: at},
		},
		"it has resumed": {
			conditions: []metav1.Condition{condition("Paused", "False", "NotPaused", "")},
			want:       planner.Machine{ResumedAt: at},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := planner.Machine{}
			addReports(&got, &clusterv1.Machine{Status: clusterv1.MachineStatus{Conditions: tc.conditions}})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("machine (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAddRequests(t *testing.T) {
	for name, tc := range map[string]struct {
		annotation, value string
		want              planner.Machine
	}{
		"nothing is requested":       {},
		"the user pauses it":         {clusterv1.PausedAnnotation, "", planner.Machine{PausedByUser: true}},
		"rollouts leave it out":      {"drover.io/roll-out-skip", "True", planner.Machine{Skip: true}},
		"another value asks nothing": {"drover.io/roll-out-skip", "no", planner.Machine{}},
		"its drain is skipped":       {"drover.io/drain-skip", "true", planner.Machine{SkipDrain: true}},
		"its proof is skipped":       {"drover.io/etcd-proof-skip", "true", planner.Machine{SkipProof: true}},
		"it tries again":             {"drover.io/retry", "true", planner.Machine{Retry: true}},
	} {
		t.Run(name, func(t *testing.T) {
			got := planner.Machine{}
			addRequests(&got, &clusterv1.Machine{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{tc.annotation: tc.value}}})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("machine (-want +got):\n%s", diff)
			}
		})
	}
}

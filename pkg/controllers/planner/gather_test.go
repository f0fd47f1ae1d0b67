package planner

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func TestNodeLostSince(t *testing.T) {
	at := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		status metav1.ConditionStatus
		reason string
		want   time.Time
	}{
		"ready":                                    {"True", "NodeReady", time.Time{}},
		"nobody hears of it":                       {"Unknown", "NodeReadyUnknown", at},
		"it was deleted":                           {"False", "NodeDeleted", at},
		"it says itself that it is not ready":      {"False", "NodeNotReady", time.Time{}},
		"the cluster cannot be reached to look":    {"Unknown", "ConnectionDown", time.Time{}},
		"it has never been there, as far as known": {"", "", time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			machine := &clusterv1.Machine{}
			if tc.status != "" {
				machine.Status.Conditions = []metav1.Condition{{Type: "NodeReady", Status: tc.status, Reason: tc.reason, LastTransitionTime: metav1.NewTime(at)}}
			}
			if got := nodeLostSince(machine); !got.Equal(tc.want) {
				t.Errorf("lost since %s, want %s", got, tc.want)
			}
		})
	}
}

package planstore

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// A deadline counts only the time in which Cluster API can see the node.
func TestNodeMissedSince_IgnoresBrokenConnections(t *testing.T) {
	at := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		reason      string // of the node, since at; empty for a machine without a node
		connection  string // empty: the condition is absent
		since       time.Duration
		want        time.Time
		wantUnknown bool
	}{
		"connected all the time":                     {"NodeReadyUnknown", "True", -time.Hour, at, false},
		"Cluster API does not report the connection": {"NodeReadyUnknown", "", 0, at, false},
		"the connection returned while the node was lost": {"NodeReadyUnknown", "True", time.Hour,
			at.Add(time.Hour), false},
		"the connection is down":                          {"NodeReadyUnknown", "False", time.Hour, at, true},
		"the connection is down, the node existed before": {"NodeReady", "False", time.Hour, time.Time{}, true},
		"the connection has been down for too long": {"ConnectionDown", "False", -time.Minute, time.Time{},
			true},
		"the connection is back, the node was not checked yet": {"ConnectionDown", "True", time.Minute, time.Time{},
			true},
		"the node exists": {"NodeReady", "True", -time.Hour, time.Time{}, false},
		"the connection is down, the machine never was a node": {"", "False", time.Hour, time.Time{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			machine, cluster := &clusterv1.Machine{}, &clusterv1.Cluster{}
			if tc.reason != "" {
				machine.Status.NodeRef.Name = "node"
				status := metav1.ConditionUnknown
				if tc.reason == "NodeReady" {
					status = metav1.ConditionTrue
				}
				machine.Status.Conditions = []metav1.Condition{{Type: "NodeReady", Status: status, Reason: tc.reason,
					LastTransitionTime: metav1.NewTime(at)}}
			}
			if tc.connection != "" {
				cluster.Status.Conditions = []metav1.Condition{{
					Type: "RemoteConnectionProbe", Status: metav1.ConditionStatus(tc.connection),
					LastTransitionTime: metav1.NewTime(at.Add(tc.since)),
				}}
			}
			if got := NodeMissedSince(machine, cluster); !got.Equal(tc.want) {
				t.Errorf("missed since %s, want %s", got, tc.want)
			}
			wantSince := time.Time{}
			if tc.wantUnknown {
				if wantSince = at.Add(tc.since); tc.connection == "True" {
					wantSince = at
				}
			}
			if got := NodeUnknownSince(machine, cluster); !got.Equal(wantSince) {
				t.Errorf("unknown since %s, want %s", got, wantSince)
			}
			if got := NodeUnknown(machine, cluster); got != tc.wantUnknown {
				t.Errorf("unknown %v, want %v", got, tc.wantUnknown)
			}
		})
	}
}

package planstore

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-io/drover/pkg/nodeplan"
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
			if got := NodeLostSince(machine); !got.Equal(tc.want) {
				t.Errorf("lost since %s, want %s", got, tc.want)
			}
		})
	}
}

func TestBroken(t *testing.T) {
	at := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	plan := []byte(`{"probes":{"etcd":{}}}`)
	checksum := []byte(nodeplan.Checksum(plan))
	healthy, unhealthy := []byte(`{"etcd":{"healthy":true}}`), []byte(`{"etcd":{"healthy":false}}`)
	for name, tc := range map[string]struct {
		lost           bool
		data           map[string][]byte
		after          time.Duration // since the plan was delivered
		wantBroken     bool
		wantRestarting bool
	}{
		"it works":                      {data: map[string][]byte{"plan": plan, "applied-checksum": checksum, "probe-statuses": healthy}},
		"its node is lost":              {lost: true, data: map[string][]byte{"plan": plan, "applied-checksum": checksum, "probe-statuses": healthy}, wantBroken: true},
		"it has no plan":                {data: map[string][]byte{}},
		"its plan is not applied":       {data: map[string][]byte{"plan": plan, "applied-checksum": []byte("old"), "probe-statuses": healthy}, wantRestarting: true},
		"a probe does not pass":         {data: map[string][]byte{"plan": plan, "applied-checksum": checksum, "probe-statuses": unhealthy}, wantRestarting: true},
		"a probe has not been reported": {data: map[string][]byte{"plan": plan, "applied-checksum": checksum}, wantRestarting: true},
		"its plan has failed": {
			data: map[string][]byte{"plan": plan, "failed-checksum": checksum, "failure-count": []byte("1")}, wantBroken: true, wantRestarting: true,
		},
		"it has not worked for long": {data: map[string][]byte{"plan": plan, "applied-checksum": checksum, "probe-statuses": unhealthy}, after: time.Hour, wantBroken: true},
		"its reports cannot be read": {data: map[string][]byte{"plan": plan, "applied-checksum": checksum, "probe-statuses": []byte("{")}, after: time.Hour, wantBroken: true},
	} {
		t.Run(name, func(t *testing.T) {
			machine := &clusterv1.Machine{}
			if tc.lost {
				machine.Status.Conditions = []metav1.Condition{{Type: "NodeReady", Status: "Unknown", Reason: "NodeReadyUnknown", LastTransitionTime: metav1.NewTime(at)}}
			}
			secret := &corev1.Secret{Type: "rke.cattle.io/machine-plan", Data: tc.data}
			secret.Annotations = map[string]string{"rke.cattle.io/plan-last-updated": at.Format(time.RFC3339)}
			if got := Broken(machine, secret, at.Add(tc.after+time.Minute), 10*time.Minute); got != tc.wantBroken {
				t.Errorf("broken is %v", got)
			}
			if got := Restarting(secret, at.Add(tc.after+time.Minute), 10*time.Minute); got != tc.wantRestarting {
				t.Errorf("restarting is %v", got)
			}
		})
	}
	if Broken(&clusterv1.Machine{}, nil, at, 0) {
		t.Error("a machine without a plan secret is broken")
	}
}

package planstore

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner"
)

func TestNodeLostSince(t *testing.T) {
	at := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		status metav1.ConditionStatus
		reason string
		want   time.Time
	}{
		"ready":                       {"True", "NodeReady", time.Time{}},
		"the kubelet does not report": {"Unknown", "NodeReadyUnknown", at},
		"the node was deleted":        {"False", "NodeDeleted", at},
		"the node reports NotReady":   {"False", "NodeNotReady", time.Time{}},
		"the cluster is unreachable":  {"Unknown", "ConnectionDown", time.Time{}},
		"the node was never seen":     {"", "", time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			machine := &clusterv1.Machine{}
			if tc.status != "" {
				machine.Status.Conditions = []metav1.Condition{{Type: "NodeReady", Status: tc.status, Reason: tc.reason,
					LastTransitionTime: metav1.NewTime(at)}}
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
		"it is healthy": {data: map[string][]byte{"plan": plan, "applied-checksum": checksum,
			"probe-statuses": healthy}},
		"its node is lost": {lost: true,
			data:       map[string][]byte{"plan": plan, "applied-checksum": checksum, "probe-statuses": healthy},
			wantBroken: true},
		"it has no plan": {data: map[string][]byte{}},
		"its plan is not applied": {data: map[string][]byte{"plan": plan, "applied-checksum": []byte("old"),
			"probe-statuses": healthy}, wantRestarting: true},
		"a probe does not pass": {data: map[string][]byte{"plan": plan, "applied-checksum": checksum,
			"probe-statuses": unhealthy}, wantRestarting: true},
		"a probe has not been reported": {data: map[string][]byte{"plan": plan, "applied-checksum": checksum},
			wantRestarting: true},
		"its plan has failed": {
			data:       map[string][]byte{"plan": plan, "failed-checksum": checksum, "failure-count": []byte("1")},
			wantBroken: true, wantRestarting: true,
		},
		"it has been unhealthy for a long time": {data: map[string][]byte{"plan": plan, "applied-checksum": checksum,
			"probe-statuses": unhealthy}, after: time.Hour, wantBroken: true},
		"its reports are unreadable": {data: map[string][]byte{"plan": plan, "applied-checksum": checksum,
			"probe-statuses": []byte("{")}, after: time.Hour, wantBroken: true},
	} {
		t.Run(name, func(t *testing.T) {
			machine := &clusterv1.Machine{}
			if tc.lost {
				machine.Status.Conditions = []metav1.Condition{{Type: "NodeReady", Status: "Unknown",
					Reason: "NodeReadyUnknown", LastTransitionTime: metav1.NewTime(at)}}
			}
			secret := &corev1.Secret{Type: "rke.cattle.io/machine-plan", Data: tc.data}
			secret.Annotations = map[string]string{"rke.cattle.io/plan-last-updated": at.Format(time.RFC3339)}
			member := memberOf(t, machine, secret)
			if got := member.Broken(at.Add(tc.after+time.Minute), 10*time.Minute); got != tc.wantBroken {
				t.Errorf("broken is %v", got)
			}
			if got := member.Restarting(at.Add(tc.after+time.Minute), 10*time.Minute); got != tc.wantRestarting {
				t.Errorf("restarting is %v", got)
			}
		})
	}
	if memberOf(t, &clusterv1.Machine{}, nil).Broken(at, 0) {
		t.Error("a machine without a plan secret is broken")
	}
}

// memberOf is the member of a machine in a cluster whose API server answers.
func memberOf(t *testing.T, machine *clusterv1.Machine, secret *corev1.Secret) Member {
	t.Helper()
	member, err := MemberOf(machine, secret, func() (bool, error) { return true, nil })
	if err != nil {
		t.Fatal(err)
	}
	return member
}

// The hook that removes etcd members and the planner that restarts them agree on which members work. Otherwise each
// would wait for the other.
func TestEtcdServes_TheHookAndThePlannerSeeTheSame(t *testing.T) {
	const (
		ordinary = `{"probes":{"etcd":{}}}`
		proof    = `{"probes":{"etcd":{}},"instructions":[{"name":"etcd-healthy"}]}`
		stop     = `{"instructions":[{"name":"install","env":["DROVER_OPERATION=etcd-restore-stop"]}]}`
		restore  = `{"instructions":[{"name":"install","env":["DROVER_OPERATION=etcd-restore"]}]}`
		rotation = `{"probes":{"etcd":{}},"instructions":[{"name":"install","env":["DROVER_OPERATION=certificate-rotation"]}]}`
	)
	refused, err := nodeplan.EncodeOutput(map[string][]byte{"etcd-healthy": []byte("1 of 2"),
		nodeplan.OutputFailure: nodeplan.Failure{Instruction: "etcd-healthy", ExitCode: 1}.Encode()})
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := nodeplan.EncodeOutput(
		map[string][]byte{nodeplan.OutputFailure: nodeplan.Failure{Instruction: "install", ExitCode: 1}.Encode()})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		plan, probes    string
		applied, failed bool
		output          []byte
		lost            bool
		want            bool
	}{
		"it is healthy": {plan: ordinary, applied: true, probes: `{"etcd":{"healthy":true}}`,
			want: true},
		"its node is lost": {plan: ordinary, applied: true, probes: `{"etcd":{"healthy":true}}`,
			lost: true},
		"it has no plan":                {},
		"its plan is not applied":       {plan: ordinary, probes: `{"etcd":{"healthy":true}}`},
		"a probe does not pass":         {plan: ordinary, applied: true, probes: `{"etcd":{"healthy":false}}`},
		"a probe has not been reported": {plan: ordinary, applied: true},
		"its reports are unreadable":    {plan: ordinary, applied: true, probes: "{"},
		"its node refuses the plan": {plan: proof, failed: true, output: refused,
			probes: `{"etcd":{"healthy":true}}`, want: true},
		"it refuses the plan and is stopped": {plan: proof, failed: true, output: refused,
			probes: `{"etcd":{"healthy":false}}`},
		"it refuses the plan and is lost": {plan: proof, failed: true, output: refused,
			probes: `{"etcd":{"healthy":true}}`, lost: true},
		"its plan fails after the proof": {plan: proof, failed: true, output: elsewhere,
			probes: `{"etcd":{"healthy":true}}`},
		"a restore stopped it":        {plan: stop, applied: true},
		"a restore restores its data": {plan: restore, applied: true},
		"another operation ran":       {plan: rotation, applied: true, probes: `{"etcd":{"healthy":true}}`, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			machine := &clusterv1.Machine{}
			if tc.lost {
				machine.Status.Conditions = []metav1.Condition{{Type: "NodeReady", Status: "Unknown",
					Reason: "NodeReadyUnknown", LastTransitionTime: metav1.Now()}}
			}
			secret := &corev1.Secret{Type: "rke.cattle.io/machine-plan", Data: map[string][]byte{}}
			set := func(key, value string) {
				if value != "" {
					secret.Data[key] = []byte(value)
				}
			}
			set("plan", tc.plan)
			set("probe-statuses", tc.probes)
			checksum := nodeplan.Checksum([]byte(tc.plan))
			if tc.applied {
				set("applied-checksum", checksum)
			}
			if tc.failed {
				set("failed-checksum", checksum)
				set("failure-count", "1")
				secret.Data["failed-output"] = tc.output
			}
			if got := memberOf(t, machine, secret).EtcdServes(); got != tc.want {
				t.Errorf("serving for the hook: %v", got)
			}
			if got := planner.EtcdServes(decode(secret)) && !tc.lost; got != tc.want {
				t.Errorf("serving for the planner: %v", got)
			}
		})
	}
	if memberOf(t, &clusterv1.Machine{}, nil).EtcdServes() {
		t.Error("a machine without a plan secret serves")
	}
}

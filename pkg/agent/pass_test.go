package agent

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

var noon = time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)

// secretData builds the data of a plan secret from texts.
func secretData(planText string, pairs ...string) map[string][]byte {
	data := map[string][]byte{nodeplan.KeyPlan: []byte(planText)}
	for i := 0; i < len(pairs); i += 2 {
		data[pairs[i]] = []byte(pairs[i+1])
	}
	return data
}

func TestDecide(t *testing.T) {
	sum := nodeplan.Checksum([]byte("{}"))
	ago := func(d time.Duration) string { return unixDate(noon.Add(-d)) }
	tests := map[string]struct {
		data           map[string][]byte
		confirmed      bool
		started        time.Time
		wantApply      bool
		wantAttempt    int
		wantBegin      bool
		wantRetryAfter time.Duration
	}{
		"never applied": {data: secretData("{}"), wantApply: true, wantAttempt: 1},
		"applied and recorded on this machine": {data: secretData("{}", nodeplan.KeyAppliedChecksum, sum),
			confirmed: true, wantAttempt: 1},
		"applied, but the record on this machine is lost": {data: secretData("{}", nodeplan.KeyAppliedChecksum, sum),
			wantApply: true, wantAttempt: 1},
		"another plan was applied": {data: secretData("{}", nodeplan.KeyAppliedChecksum, "abc"), confirmed: true,
			wantApply: true, wantAttempt: 1},
		"another plan failed: attempts restart at 1": {
			data: secretData("{}", nodeplan.KeyFailedChecksum, "abc", nodeplan.KeyFailureCount, "2"), wantApply: true,
			wantAttempt: 1,
		},
		"failed long ago": {
			data: secretData("{}", nodeplan.KeyFailedChecksum, sum, nodeplan.KeyFailureCount, "2",
				nodeplan.KeyLastApplyTime, ago(time.Hour)),
			wantApply: true, wantAttempt: 3,
		},
		"failed recently": {
			data: secretData("{}", nodeplan.KeyFailedChecksum, sum, nodeplan.KeyFailureCount, "2",
				nodeplan.KeyLastApplyTime, ago(10*time.Second)),
			wantAttempt: 3, wantRetryAfter: 50 * time.Second,
		},
		"failed recently, before this process started": {
			data: secretData("{}", nodeplan.KeyFailedChecksum, sum, nodeplan.KeyFailureCount, "9",
				nodeplan.KeyLastApplyTime, ago(10*time.Second)),
			started: noon.Add(-time.Second), wantAttempt: 10, wantRetryAfter: 20 * time.Second,
		},
		"failed often, minutes ago": {
			data: secretData("{}", nodeplan.KeyFailedChecksum, sum, nodeplan.KeyFailureCount, "9",
				nodeplan.KeyLastApplyTime, ago(4*time.Minute)),
			wantAttempt: 10, wantRetryAfter: 6 * time.Minute,
		},
		"failed as often as allowed": {
			data: secretData("{}", nodeplan.KeyFailedChecksum, sum, nodeplan.KeyFailureCount, "2",
				nodeplan.KeyMaxFailures, "2",
				nodeplan.KeyLastApplyTime, ago(time.Hour)),
			wantAttempt: 3,
		},
		"failed often, no limit": {
			data: secretData("{}", nodeplan.KeyFailedChecksum, sum, nodeplan.KeyFailureCount, "99",
				nodeplan.KeyMaxFailures, "-1",
				nodeplan.KeyLastApplyTime, ago(time.Hour)),
			wantApply: true, wantAttempt: 100,
		},
		"an invalid limit means no limit": {
			data: secretData("{}", nodeplan.KeyFailedChecksum, sum, nodeplan.KeyFailureCount, "9",
				nodeplan.KeyMaxFailures, "x",
				nodeplan.KeyLastApplyTime, ago(time.Hour)),
			wantApply: true, wantAttempt: 10,
		},
		"failed in the future: the clock was set back": {
			data: secretData("{}", nodeplan.KeyFailedChecksum, sum, nodeplan.KeyFailureCount, "1",
				nodeplan.KeyLastApplyTime, ago(-time.Hour)), wantApply: true, wantAttempt: 2,
		},
		"state pending": {data: secretData("{}", nodeplan.KeyPlanState, "pending",
			nodeplan.KeyAppliedChecksum, sum), confirmed: true, wantApply: true, wantAttempt: 1, wantBegin: true},
		"state in progress": {data: secretData("{}", nodeplan.KeyPlanState, "in-progress"),
			wantApply: true, wantAttempt: 1},
		"state succeeded": {data: secretData("{}", nodeplan.KeyPlanState, "succeeded"),
			wantAttempt: 1},
		"state failed":                 {data: secretData("{}", nodeplan.KeyPlanState, "failed"), wantAttempt: 1},
		"an unknown state is terminal": {data: secretData("{}", nodeplan.KeyPlanState, "paused"), wantAttempt: 1},
		"an empty state means checksum mode": {data: secretData("{}", nodeplan.KeyPlanState, ""), wantApply: true,
			wantAttempt: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := decide(tc.data, tc.confirmed, tc.started, noon)
			if got.apply != tc.wantApply || got.attempt != tc.wantAttempt || (got.begin != nil) != tc.wantBegin ||
				got.retryAfter != tc.wantRetryAfter {
				t.Errorf("decide = %+v", got)
			}
		})
	}
}

// The pause of a failing plan grows to a maximum, and the retries never stop.
func TestCooldown(t *testing.T) {
	for failures, want := range map[int]time.Duration{
		0: 30 * time.Second, 1: 30 * time.Second, 2: time.Minute, 3: 2 * time.Minute, 4: 4 * time.Minute,
		5: 8 * time.Minute, 6: 10 * time.Minute,
		7: 10 * time.Minute, 1 << 62: 10 * time.Minute,
	} {
		if got := cooldown(failures); got != want {
			t.Errorf("after %d failures: %s, want %s", failures, got, want)
		}
	}
}

func TestDecide_PendingRaisesRevision(t *testing.T) {
	got := decide(secretData("{}", nodeplan.KeyPlanState, "pending", nodeplan.KeyPlanRevision, "7"), false, time.Time{},
		noon)
	want := map[string][]byte{nodeplan.KeyPlanState: []byte("in-progress"), nodeplan.KeyPlanRevision: []byte("8")}
	if diff := cmp.Diff(want, got.begin); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRecord(t *testing.T) {
	sum := nodeplan.Checksum([]byte("{}"))
	encode := func(output map[string][]byte) string {
		data, err := nodeplan.EncodeOutput(output)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	nothing := encode(nil)
	at := unixDate(noon)
	tests := map[string]struct {
		data map[string][]byte
		d    decision
		r    result
		want map[string]string
	}{
		"first report without a plan to apply": {
			data: secretData("{}"),
			want: map[string]string{nodeplan.KeyAppliedPeriodicOutput: nothing, nodeplan.KeyProbeStatuses: "{}"},
		},
		"idle node writes nothing": {
			data: secretData("{}", nodeplan.KeyAppliedPeriodicOutput, nothing, nodeplan.KeyProbeStatuses,
				`{"a":{"healthy":true,"successCount":1}}`),
			r:    result{probes: map[string]plan.ProbeStatus{"a": {Healthy: true, SuccessCount: 1}}},
			want: map[string]string{},
		},
		"success": {
			data: secretData("{}", nodeplan.KeyAppliedPeriodicOutput, nothing, nodeplan.KeyProbeStatuses, "{}",
				nodeplan.KeySuccessCount, "4",
				nodeplan.KeyAppliedOutput, encode(map[string][]byte{"old": []byte("kept")}), nodeplan.KeyFailedChecksum,
				"abc", nodeplan.KeyFailureCount, "2"),
			d: decision{apply: true, attempt: 1},
			r: result{applied: true, succeeded: true, at: noon, output: map[string][]byte{"new": []byte("x")}},
			want: map[string]string{
				nodeplan.KeyAppliedChecksum: sum,
				nodeplan.KeyAppliedOutput:   encode(map[string][]byte{"old": []byte("kept"), "new": []byte("x")}),
				nodeplan.KeyFailedChecksum:  "", nodeplan.KeyFailedOutput: "", nodeplan.KeyFailureCount: "0",
				nodeplan.KeySuccessCount: "5", nodeplan.KeyLastApplyTime: at,
			},
		},
		"failure": {
			data: secretData("{}", nodeplan.KeyAppliedPeriodicOutput, nothing, nodeplan.KeyProbeStatuses, "{}",
				nodeplan.KeySuccessCount, "4",
				nodeplan.KeyFailedOutput,
				encode(map[string][]byte{nodeplan.OutputAgentError: []byte("of the attempt before")})),
			d: decision{apply: true, attempt: 3},
			r: result{applied: true, at: noon, output: map[string][]byte{"install": []byte("no space left")}},
			want: map[string]string{
				nodeplan.KeyFailedChecksum: sum,
				nodeplan.KeyFailedOutput:   encode(map[string][]byte{"install": []byte("no space left")}),
				nodeplan.KeyFailureCount:   "3", nodeplan.KeySuccessCount: "0", nodeplan.KeyLastApplyTime: at,
			},
		},
		"state mode success": {
			data: secretData("{}", nodeplan.KeyAppliedPeriodicOutput, nothing, nodeplan.KeyProbeStatuses, "{}",
				nodeplan.KeyPlanState, "in-progress"),
			d: decision{apply: true, attempt: 1, stateMode: true},
			r: result{applied: true, succeeded: true, at: noon},
			want: map[string]string{
				nodeplan.KeyPlanState: "succeeded", nodeplan.KeyAppliedChecksum: sum,
				nodeplan.KeyAppliedOutput: nothing, nodeplan.KeyFailedChecksum: "",
				nodeplan.KeyFailedOutput: "", nodeplan.KeyFailureCount: "0", nodeplan.KeySuccessCount: "1",
				nodeplan.KeyLastApplyTime: at,
			},
		},
		"state mode keeps the record of a failure": {
			data: secretData("{}", nodeplan.KeyAppliedPeriodicOutput, nothing, nodeplan.KeyProbeStatuses, "{}",
				nodeplan.KeyPlanState, "failed",
				nodeplan.KeyFailedChecksum, sum, nodeplan.KeyFailureCount, "1"),
			d:    decision{stateMode: true},
			want: map[string]string{},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			changes, err := record(tc.data, tc.d, tc.r)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for key, value := range changes {
				got[key] = string(value)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestNextPass(t *testing.T) {
	sick := map[string]plan.ProbeStatus{"a": {}}
	tests := map[string]struct {
		data       map[string][]byte
		probes     map[string]plan.ProbeStatus
		d          decision
		sinceApply time.Duration
		want       time.Duration
	}{
		"idle": {sinceApply: time.Hour, want: 5 * time.Second},
		"requested period": {data: secretData("", nodeplan.KeyProbePeriodSeconds, "60"),
			sinceApply: time.Hour, want: time.Minute},
		"unhealthy directly after an apply": {probes: sick, want: time.Second},
		"unhealthy for a long time":         {probes: sick, sinceApply: time.Hour, want: 5 * time.Second},
		"retry comes first": {d: decision{retryAfter: 2 * time.Second}, sinceApply: time.Hour,
			want: 2 * time.Second},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := nextPass(tc.data, tc.probes, tc.d, tc.sinceApply); got != tc.want {
				t.Errorf("nextPass = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestDue(t *testing.T) {
	ago := func(d time.Duration) string { return unixDate(noon.Add(-d)) }
	tests := map[string]struct {
		period int
		last   plan.PeriodicInstructionOutput
		force  bool
		want   bool
	}{
		"never ran": {want: true},
		"default period is ten minutes": {
			last: plan.PeriodicInstructionOutput{LastSuccessfulRunTime: ago(9 * time.Minute)}},
		"default period has passed": {
			last: plan.PeriodicInstructionOutput{LastSuccessfulRunTime: ago(10 * time.Minute)}, want: true},
		"own period has passed": {period: 5,
			last: plan.PeriodicInstructionOutput{LastSuccessfulRunTime: ago(5 * time.Second)}, want: true},
		"one-time instructions ran": {last: plan.PeriodicInstructionOutput{LastSuccessfulRunTime: ago(0)},
			force: true, want: true},
		"first failure pauses": {last: plan.PeriodicInstructionOutput{Failures: 1,
			LastFailedRunTime: ago(29 * time.Second)}},
		"pause after a failure ends": {last: plan.PeriodicInstructionOutput{Failures: 1,
			LastFailedRunTime: ago(30 * time.Second)}, want: true},
		"pause grows": {last: plan.PeriodicInstructionOutput{Failures: 3,
			LastFailedRunTime: ago(80 * time.Second)}},
		"pause grows to three minutes": {last: plan.PeriodicInstructionOutput{Failures: 99,
			LastFailedRunTime: ago(180 * time.Second)}, want: true},
		"an invalid time means long ago": {last: plan.PeriodicInstructionOutput{LastSuccessfulRunTime: "yesterday"},
			want: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := due(plan.PeriodicInstruction{PeriodSeconds: tc.period}, tc.last, tc.force, noon); got != tc.want {
				t.Errorf("due = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestCount(t *testing.T) {
	tests := map[string]struct {
		probe   plan.Probe
		results []bool
		want    plan.ProbeStatus
	}{
		"healthy after one success by default": {results: []bool{true},
			want: plan.ProbeStatus{Healthy: true, SuccessCount: 1}},
		"healthy after the success threshold": {probe: plan.Probe{SuccessThreshold: 2}, results: []bool{true},
			want: plan.ProbeStatus{SuccessCount: 1}},
		"the counter stops at the threshold": {results: []bool{true, true, true},
			want: plan.ProbeStatus{Healthy: true, SuccessCount: 1}},
		"two failures: still healthy": {results: []bool{true, false, false},
			want: plan.ProbeStatus{Healthy: true, FailureCount: 2}},
		"three failures: unhealthy": {results: []bool{true, false, false, false, false},
			want: plan.ProbeStatus{FailureCount: 3}},
		"a success resets the count": {results: []bool{true, false, false, true, false},
			want: plan.ProbeStatus{Healthy: true, FailureCount: 1}},
		"failing from the start": {results: []bool{false}, want: plan.ProbeStatus{FailureCount: 1}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got plan.ProbeStatus
			for _, ok := range tc.results {
				got = count(tc.probe, got, ok)
			}
			if got != tc.want {
				t.Errorf("count = %+v, want %+v", got, tc.want)
			}
		})
	}
}

package nodeplan

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
)

func TestParse_Outcome(t *testing.T) {
	const thisPlan = `{"error":"x"}`
	sum := Checksum([]byte(thisPlan))
	tests := map[string]struct {
		data       map[string]string
		wantInSync bool
		wantFailed bool
	}{
		"just delivered": {},
		"applied checksum matches": {data: map[string]string{KeyAppliedChecksum: sum},
			wantInSync: true},
		"applied copy matches while an agent restarts": {data: map[string]string{KeyAppliedPlan: thisPlan,
			KeyAppliedChecksum: ""}, wantInSync: true},
		"another plan was applied": {data: map[string]string{KeyAppliedPlan: `{}`,
			KeyAppliedChecksum: Checksum([]byte("{}"))}},
		"applied, and then another plan was applied": {data: map[string]string{KeyAppliedPlan: thisPlan,
			KeyAppliedChecksum: Checksum([]byte("{}"))}},
		"first failure without threshold": {data: map[string]string{KeyFailedChecksum: sum,
			KeyFailureCount: "1"}, wantFailed: true},
		"failure of another plan": {data: map[string]string{KeyFailedChecksum: "abc",
			KeyFailureCount: "1"}},
		"fewer failures than the threshold": {data: map[string]string{KeyFailedChecksum: sum,
			KeyFailureCount: "4", KeyFailureThreshold: "5"}},
		"as many failures as the threshold": {data: map[string]string{KeyFailedChecksum: sum,
			KeyFailureCount: "5", KeyFailureThreshold: "5"}, wantFailed: true},
		"threshold never": {data: map[string]string{KeyFailedChecksum: sum,
			KeyFailureCount: "99", KeyFailureThreshold: "-1"}},
		"state succeeded is believed": {data: map[string]string{KeyPlanState: "succeeded"},
			wantInSync: true},
		"state failed is believed against the checksum": {data: map[string]string{KeyPlanState: "failed",
			KeyAppliedChecksum: sum, KeyAppliedPlan: thisPlan}, wantFailed: true},
		"state in progress is neither": {data: map[string]string{KeyPlanState: "in-progress",
			KeyAppliedChecksum: sum}},
		"state pending of an older agent: checksum": {data: map[string]string{KeyPlanState: "pending",
			KeyAppliedChecksum: sum}, wantInSync: true},
		"state pending of an older agent: failure": {data: map[string]string{KeyPlanState: "pending",
			KeyFailedChecksum: sum, KeyFailureCount: "1"}, wantFailed: true},
		"empty state is no state": {data: map[string]string{KeyPlanState: "", KeyPlanRevision: "",
			KeyAppliedChecksum: sum}, wantInSync: true},
		"an unknown state: checksum": {data: map[string]string{KeyPlanState: "cancelled", KeyAppliedChecksum: sum},
			wantInSync: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			data := map[string][]byte{KeyPlan: []byte(thisPlan)}
			for k, v := range tc.data {
				data[k] = []byte(v)
			}
			got, err := Parse("ns/p", data)
			if err != nil {
				t.Fatal(err)
			}
			if got.InSync != tc.wantInSync || got.Failed != tc.wantFailed {
				t.Errorf("in sync %v, failed %v; want %v, %v", got.InSync, got.Failed, tc.wantInSync, tc.wantFailed)
			}
		})
	}
}

func TestParse_NoPlan(t *testing.T) {
	got, err := Parse("ns/p", nil)
	if err != nil || got.PlanExists || got.InSync || got.Failed || !got.Healthy {
		t.Errorf("Parse(nil) = %+v, %v", got, err)
	}
}

func TestParse_Probes(t *testing.T) {
	tests := map[string]struct {
		statuses      string
		wantHealthy   bool
		wantUnhealthy []string
	}{
		"not reported yet": {wantHealthy: true},
		"no probes":        {statuses: "{}", wantHealthy: true},
		"all healthy":      {statuses: `{"a":{"healthy":true}}`, wantHealthy: true},
		"names are sorted": {statuses: `{"c":{},"a":{"failureCount":2},"b":{"healthy":true}}`,
			wantUnhealthy: []string{"a", "c"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Parse("ns/p", map[string][]byte{KeyProbeStatuses: []byte(tc.statuses)})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.wantUnhealthy, got.UnhealthyProbes()); diff != "" || got.Healthy != tc.wantHealthy {
				t.Errorf("healthy %v, unhealthy (-want +got):\n%s", got.Healthy, diff)
			}
		})
	}
}

func TestParse_MalformedKeysAreNamedAndNeverQuoted(t *testing.T) {
	const secret = "hunter2"
	keys := []string{
		KeyPlan, KeyAppliedPlan, KeyAppliedOutput, KeyFailedOutput, KeyAppliedPeriodicOutput, KeyProbeStatuses,
		KeyMaxFailures, KeyFailureThreshold, KeyFailureCount, KeySuccessCount, KeyPlanRevision,
	}
	for _, key := range keys {
		t.Run(key, func(t *testing.T) {
			data := map[string][]byte{KeyPlan: []byte(`{}`)}
			data[key] = []byte(`{"` + secret)
			state, err := Parse("ns/p", data)
			var bad *MalformedError
			if !errors.As(err, &bad) || bad.Key != key || bad.Secret != "ns/p" {
				t.Fatalf("err = %v, want a MalformedError for %s", err, key)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error contains content: %v", err)
			}
			if key == KeyPlan && (state.InSync || state.Failed) {
				t.Error("a malformed plan is neither in sync nor failed")
			}
		})
	}
}

func TestParse_ReportsAllMalformedKeys(t *testing.T) {
	_, err := Parse("ns/p", map[string][]byte{KeyPlan: []byte("x"), KeyProbeStatuses: []byte("x"),
		KeyFailureCount: []byte("x")})
	for _, key := range []string{KeyPlan, KeyProbeStatuses, KeyFailureCount} {
		if !strings.Contains(err.Error(), `"`+key+`"`) {
			t.Errorf("error does not name %s: %v", key, err)
		}
	}
}

// TestDeliver checks that a delivery does not switch the agent's mode. (docs/invariants.md#weaknesses, W34.)
func TestDeliver(t *testing.T) {
	old := map[string][]byte{
		KeyPlan: []byte("old"), KeyProbeStatuses: []byte("{}"), KeyPlanState: []byte("succeeded"),
		KeyMaxFailures:     []byte("3"),
		KeyAppliedChecksum: []byte("abc"), "foreign": []byte("kept"),
	}
	tests := map[string]struct {
		delivery Delivery
		want     map[string][]byte
		wantErr  bool
	}{
		"no limit, first failure counts": {
			delivery: Delivery{Plan: []byte("new"), MaxFailures: NoLimit, FailureThreshold: 1},
			want: map[string][]byte{KeyPlan: []byte("new"), KeyMaxFailures: []byte("-1"),
				KeyFailureThreshold: []byte("1"), KeyAppliedChecksum: []byte("abc"), "foreign": []byte("kept")},
		},
		"both keys removed": {
			delivery: Delivery{Plan: []byte("new")},
			want: map[string][]byte{KeyPlan: []byte("new"), KeyAppliedChecksum: []byte("abc"),
				"foreign": []byte("kept")},
		},
		"once and never failed": {
			delivery: Delivery{Plan: []byte("new"), MaxFailures: 1, FailureThreshold: NoLimit},
			want: map[string][]byte{KeyPlan: []byte("new"), KeyMaxFailures: []byte("1"),
				KeyFailureThreshold: []byte("-1"), KeyAppliedChecksum: []byte("abc"), "foreign": []byte("kept")},
		},
		"threshold that cannot be reached": {delivery: Delivery{Plan: []byte("new"), MaxFailures: 1,
			FailureThreshold: 2}, wantErr: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Deliver(old, tc.delivery)
			if (err != nil) != tc.wantErr {
				t.Fatalf("err = %v", err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if string(old[KeyPlan]) != "old" || len(old) != 6 {
				t.Error("the given map was changed")
			}
		})
	}
	if got, err := Deliver(nil, Delivery{Plan: []byte("new")}); err != nil || string(got[KeyPlan]) != "new" {
		t.Errorf("Deliver(nil) = %v, %v", got, err)
	}
}

// TestApplied checks that a failed plan is not recorded as applied. (docs/invariants.md#weaknesses, W33.)
func TestApplied(t *testing.T) {
	planBytes := []byte(`{"periodicInstructions":[{"name":"keep"}]}`)
	sum := []byte(Checksum(planBytes))
	output := func(names ...string) []byte {
		m := map[string]plan.PeriodicInstructionOutput{}
		for _, n := range names {
			m[n] = plan.PeriodicInstructionOutput{Name: n}
		}
		data, err := EncodePeriodicOutput(m)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	tests := map[string]struct {
		data        map[string][]byte
		wantChanged bool
		want        map[string][]byte // only the keys to compare
	}{
		"nothing reported": {data: map[string][]byte{KeyPlan: planBytes}},
		"applied: copied": {data: map[string][]byte{KeyPlan: planBytes, KeyAppliedChecksum: sum},
			wantChanged: true, want: map[string][]byte{KeyAppliedPlan: planBytes}},
		"another plan was applied": {data: map[string][]byte{KeyPlan: planBytes,
			KeyAppliedChecksum: []byte(Checksum([]byte("{}")))}},
		"applied and copied before": {data: map[string][]byte{KeyPlan: planBytes,
			KeyAppliedChecksum: sum, KeyAppliedPlan: planBytes}},
		"checksum overwritten by an agent that failed in state mode": {data: map[string][]byte{KeyPlan: planBytes,
			KeyAppliedChecksum: sum, KeyPlanState: []byte("failed")}},
		"earlier periodic output is removed": {
			data:        map[string][]byte{KeyPlan: planBytes, KeyAppliedPeriodicOutput: output("keep", "gone")},
			wantChanged: true, want: map[string][]byte{KeyAppliedPeriodicOutput: output("keep")},
		},
		"no output remains": {data: map[string][]byte{KeyPlan: planBytes,
			KeyAppliedPeriodicOutput: output("gone")}, wantChanged: true,
			want: map[string][]byte{KeyAppliedPeriodicOutput: {}}},
		"malformed output stays": {data: map[string][]byte{KeyPlan: planBytes,
			KeyAppliedPeriodicOutput: []byte("x")}},
		"malformed plan stays": {data: map[string][]byte{KeyPlan: []byte("x"),
			KeyAppliedPeriodicOutput: output("gone")}},
		"empty compressed map stays": {data: map[string][]byte{KeyPlan: planBytes, KeyAppliedPeriodicOutput: output()}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, changed := Applied(tc.data)
			if changed != tc.wantChanged {
				t.Fatalf("changed = %v, want %v", changed, tc.wantChanged)
			}
			for key, want := range tc.want {
				if diff := cmp.Diff(want, got[key]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", key, diff)
				}
			}
			if _, again := Applied(got); again {
				t.Error("recording twice must change nothing")
			}
		})
	}
}

package nodeplan

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
)

func TestEncode_KeepsWireForm(t *testing.T) {
	p := plan.NodePlan{
		Files: []plan.File{
			{Content: "aGk=", Path: "/etc/a", Permissions: "0644", Dynamic: true, Minor: true},
			{Path: "/etc/b", Directory: true, UID: -1, GID: 5},
			{Path: "/etc/c", Action: plan.FileActionDelete},
		},
		Instructions: []plan.OneTimeInstruction{{
			CommonInstruction: plan.CommonInstruction{Name: "install", Image: "rancher/x:v1", Env: []string{"A=<b>"},
				Args: []string{"-c", "run.sh"}, Command: "sh"},
			SaveOutput: true,
		}},
		PeriodicInstructions: []plan.PeriodicInstruction{{
			CommonInstruction: plan.CommonInstruction{Name: "tick", Command: "true"}, PeriodSeconds: 5,
			SaveStderrOutput: true,
		}},
		Probes: map[string]plan.Probe{
			"kubelet": {InitialDelaySeconds: 1, TimeoutSeconds: 5, SuccessThreshold: 1, FailureThreshold: 5,
				HTTPGetAction: plan.HTTPGetAction{URL: "http://127.0.0.1:10248/healthz"}},
			"empty": {},
		},
	}
	want := `{"files":[{"content":"aGk=","path":"/etc/a","permissions":"0644","dynamic":true,"minor":true},` +
		`{"path":"/etc/b","directory":true,"uid":-1,"gid":5},{"path":"/etc/c","action":"delete"}],` +
		`"instructions":[{"name":"install","image":"rancher/x:v1","env":["A=\u003cb\u003e"],"args":["-c","run.sh"],"command":"sh","saveOutput":true}],` +
		`"periodicInstructions":[{"name":"tick","command":"true","periodSeconds":5,"saveStderrOutput":true}],` +
		`"probes":{"empty":{"httpGet":{}},"kubelet":{"initialDelaySeconds":1,"timeoutSeconds":5,"successThreshold":1,"failureThreshold":5,` +
		`"httpGet":{"url":"http://127.0.0.1:10248/healthz"}}}}`
	got, err := Encode(p)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("wire form changed (-want +got):\n%s", diff)
	}
	back, err := Decode(got)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, back); diff != "" {
		t.Errorf("round trip (-want +got):\n%s", diff)
	}
}

func TestEncode_EmptyPlanHasNoKeys(t *testing.T) {
	got, err := Encode(plan.NodePlan{Files: []plan.File{}, Probes: map[string]plan.Probe{}})
	if err != nil || string(got) != "{}" {
		t.Errorf("Encode(empty) = %s, %v; want {}", got, err)
	}
}

func TestChecksum_IsOverExactBytes(t *testing.T) {
	if got, want := Checksum([]byte("{}")),
		"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"; got != want {
		t.Errorf("Checksum = %s, want %s", got, want)
	}
	if Checksum([]byte("{}")) == Checksum([]byte("{ }")) {
		t.Error("white space must change the checksum")
	}
}

func TestDecodeOutput(t *testing.T) {
	pack := func(text string) []byte {
		var buf bytes.Buffer
		w := gzip.NewWriter(&buf)
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return buf.Bytes()
	}
	bomb := pack(`{"a":"` + strings.Repeat("A", MaxReportSize) + `"}`)
	whole := pack(`{"one":"aGk="}`)
	tests := map[string]struct {
		data    []byte
		want    map[string][]byte
		wantErr error
	}{
		"absent key":                 {want: map[string][]byte{}},
		"empty value":                {data: []byte{}, want: map[string][]byte{}},
		"instruction without output": {data: pack(`{"one":null}`), want: map[string][]byte{"one": nil}},
		"output in base64":           {data: whole, want: map[string][]byte{"one": []byte("hi")}},
		"null instead of an object":  {data: pack(`null`), want: map[string][]byte{}},
		"not compressed":             {data: []byte(`{"one":"aGk="}`), want: map[string][]byte{}, wantErr: errNotGzip},
		"truncated":                  {data: whole[:len(whole)-6], want: map[string][]byte{}, wantErr: errNotGzip},
		"not base64":                 {data: pack(`{"one":"s3cr3t!"}`), want: map[string][]byte{}, wantErr: errNotGzip},
		"unpacks to too many bytes":  {data: bomb, want: map[string][]byte{}, wantErr: ErrTooLarge},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := DecodeOutput(KeyAppliedOutput, tc.data)
			if !errors.Is(err, tc.wantErr) {
				t.Fatalf("err = %v, want %v", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if err != nil && strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("the error contains content: %v", err)
			}
		})
	}
}

func TestOutputs_RoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		once := rapid.MapOf(rapid.String(), rapid.SliceOf(rapid.Byte())).Draw(rt, "once")
		data, err := EncodeOutput(once)
		if err != nil {
			rt.Fatal(err)
		}
		again, err := EncodeOutput(once)
		if err != nil || !bytes.Equal(data, again) {
			rt.Fatalf("encoding differs between two calls (%v)", err)
		}
		got, err := DecodeOutput(KeyAppliedOutput, data)
		if err != nil {
			rt.Fatal(err)
		}
		if len(got) != len(once) {
			rt.Fatalf("%d entries became %d", len(once), len(got))
		}
	})
}

func TestPeriodicOutput_KeepsWireForm(t *testing.T) {
	in := map[string]plan.PeriodicInstructionOutput{"tick": {
		Name: "tick", Stdout: []byte("Fri"), ExitCode: 0, LastSuccessfulRunTime: "Fri Nov 20 21:20:15 UTC 2026",
	}}
	data, err := EncodePeriodicOutput(in)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := decodeGzip[json.RawMessage](newBudget(), KeyAppliedPeriodicOutput, data)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"name":"tick","stdout":"RnJp","stderr":null,"exitCode":0,"lastSuccessfulRunTime":"Fri Nov 20 21:20:15 UTC 2026","failures":0,"lastFailedRunTime":""}`
	if diff := cmp.Diff(want, string(raw["tick"])); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got, err := DecodePeriodicOutput(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(in, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if empty, err := EncodePeriodicOutput(nil); err != nil || len(empty) == 0 {
		t.Errorf("nothing must be stored as compressed {}, got %q, %v", empty, err)
	}
}

func TestProbeStatuses(t *testing.T) {
	data, err := EncodeProbeStatuses(map[string]plan.ProbeStatus{"a": {Healthy: true, SuccessCount: 1}, "b": {}})
	if err != nil || string(data) != `{"a":{"healthy":true,"successCount":1},"b":{}}` {
		t.Errorf("EncodeProbeStatuses = %s, %v", data, err)
	}
	if data, err = EncodeProbeStatuses(nil); err != nil || string(data) != "{}" {
		t.Errorf("EncodeProbeStatuses(nil) = %s, %v", data, err)
	}
	var bad *MalformedError
	if _, err := DecodeProbeStatuses([]byte("[hunter2")); !errors.As(err, &bad) || bad.Key != KeyProbeStatuses ||
		strings.Contains(err.Error(), "hunter2") {
		t.Errorf("err = %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"files":[{}]}`), []byte("abc"), []byte("{}"), []byte("-1"))
	f.Fuzz(func(t *testing.T, p, gz, probes, number []byte) {
		state, err := Parse("ns/p", map[string][]byte{
			KeyPlan: p, KeyAppliedPlan: p, KeyAppliedOutput: gz, KeyAppliedPeriodicOutput: gz, KeyFailedOutput: gz,
			KeyProbeStatuses: probes, KeyFailureCount: number, KeyMaxFailures: number,
		})
		if state.Output == nil || state.PeriodicOutput == nil || state.ProbeStatuses == nil ||
			state.FailedOutput == nil {
			t.Error("maps must never be nil")
		}
		if err == nil && state.PlanExists && !state.InSync {
			t.Error("a copy of the same bytes must be in sync")
		}
	})
}

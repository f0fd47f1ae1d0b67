package nodeplan

import (
	"bytes"
	"compress/gzip"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/testkit/allocations"
)

// mostAllocated is what the decoder may allocate for the reports of one Secret.
const mostAllocated = 8 * MaxReportSize

func packed(tb testing.TB, text string) []byte {
	tb.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write([]byte(text)); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return buf.Bytes()
}

// entries is a JSON object with that many different keys.
func entries(count int, value string) string {
	var out strings.Builder
	for i := range count {
		out.WriteString(`,"` + strconv.Itoa(i) + `":` + value)
	}
	return "{" + strings.TrimPrefix(out.String(), ",") + "}"
}

func TestParse_BombsAreRefusedCheaply(t *testing.T) {
	large := packed(t, `{"a":"`+strings.Repeat("A", 16<<20)+`"}`)
	third := packed(t, `{"a":"`+strings.Repeat("A", 350<<10)+`"}`)
	many := packed(t, entries(100_000, "null"))
	tests := map[string]struct {
		data map[string][]byte
		keys []string
	}{
		"each key unpacks to 16 MiB": {
			data: map[string][]byte{KeyAppliedOutput: large, KeyFailedOutput: large, KeyAppliedPeriodicOutput: large},
			keys: []string{KeyAppliedPeriodicOutput, KeyFailedOutput, KeyAppliedOutput},
		},
		"the keys together unpack to more than the budget": {
			data: map[string][]byte{KeyAppliedOutput: third, KeyFailedOutput: third,
				KeyAppliedPeriodicOutput: packed(t, `{"a":{"stdout":"`+strings.Repeat("A", 350<<10)+`"}}`)},
			keys: []string{KeyAppliedOutput},
		},
		"small entries": {
			data: map[string][]byte{KeyAppliedOutput: many, KeyFailedOutput: many, KeyAppliedPeriodicOutput: many},
			keys: []string{KeyAppliedPeriodicOutput, KeyFailedOutput, KeyAppliedOutput},
		},
		"small probe statuses": {
			data: map[string][]byte{KeyProbeStatuses: []byte(`{"":{}` + strings.Repeat(`,"":{}`, 9000) + "}")},
			keys: []string{KeyProbeStatuses},
		},
		"large probe statuses": {
			data: map[string][]byte{KeyProbeStatuses: []byte(entries(1, strconv.Quote(strings.Repeat("A", 64<<10))))},
			keys: []string{KeyProbeStatuses},
		},
		"long texts": {
			data: map[string][]byte{KeyLastApplyTime: make([]byte, 512<<10), KeyFailedChecksum: make([]byte, 512<<10)},
			keys: []string{KeyFailedChecksum, KeyLastApplyTime},
		},
		"small files in the plan": {
			data: map[string][]byte{KeyPlan: []byte(`{"files":[{}` + strings.Repeat(",{}", 300_000) + `]}`),
				KeyAppliedPlan: []byte(`{"files":[{}` + strings.Repeat(",{}", 300_000) + `]}`)},
			keys: []string{KeyPlan, KeyAppliedPlan},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var err error
			allocations.AtMost(t, mostAllocated, func() { _, err = Parse("ns/p", tc.data) })
			for _, key := range tc.keys {
				want := `key "` + key + `" of plan secret ns/p is too large: more than`
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("the error must say that %s is too large: %v", key, err)
				}
			}
			if got := strings.Count(err.Error(), "too large"); got != len(tc.keys) {
				t.Errorf("%d keys are too large: %v", got, err)
			}
		})
	}
}

func TestParse_LargestReportIsReadCheaply(t *testing.T) {
	data := map[string][]byte{
		KeyAppliedOutput: packed(t, `{"a":"`+strings.Repeat("A", 700<<10)+`"}`),
		KeyFailedOutput:  packed(t, entries(7000, `""`)),
	}
	var state State
	var err error
	allocations.AtMost(t, mostAllocated, func() { state, err = Parse("ns/p", data) })
	if err != nil || len(state.Output["a"]) != 700<<10*3/4 || len(state.FailedOutput) != 7000 {
		t.Errorf("%d bytes, %d entries, %v", len(state.Output["a"]), len(state.FailedOutput), err)
	}
}

func TestParse_EqualPlansAreDecodedOnce(t *testing.T) {
	raw := []byte(`{"files":[{"path":"/a","content":"` + strings.Repeat("A", 400<<10) + `"}]}`)
	data := map[string][]byte{KeyPlan: raw, KeyAppliedPlan: bytes.Clone(raw)}
	once := allocations.Of(func() { _, _ = Parse("ns/p", map[string][]byte{KeyPlan: raw}) })
	twice := allocations.Of(func() { _, _ = Parse("ns/p", data) })
	if twice > once+once/2 {
		t.Errorf("a plan and its copy take %d bytes, the plan alone %d", twice, once)
	}
}

func TestCheck_RefusesAPlanThatDecodeRefuses(t *testing.T) {
	p := plan.NodePlan{Files: make([]plan.File, MaxPlanValues/2)}
	for i := range p.Files {
		p.Files[i] = plan.File{Path: "/etc/" + strconv.Itoa(i)}
	}
	if err := Check(p); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a plan with %d files: %v", len(p.Files), err)
	}
	p.Files = p.Files[:2000]
	data, err := Encode(p)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Decode(data); err != nil || Check(p) != nil {
		t.Errorf("a plan with %d files: %v, %v", len(p.Files), err, Check(p))
	}
}

func TestCheckReport(t *testing.T) {
	random := make([]byte, MaxReportKeySize+1)
	tests := map[string]struct {
		data    map[string][]byte
		wantErr string
	}{
		"nothing":             {},
		"keys of others":      {data: map[string][]byte{KeyPlan: make([]byte, 1<<20), "other": make([]byte, 1<<20)}},
		"malformed reports":   {data: map[string][]byte{KeyAppliedOutput: []byte("x"), KeyProbeStatuses: []byte("x")}},
		"a key of 512 KiB":    {data: map[string][]byte{KeyAppliedOutput: random[1:]}},
		"a key above 512 KiB": {data: map[string][]byte{KeyAppliedOutput: random}, wantErr: "more than 512 KiB"},
		"a long checksum":     {data: map[string][]byte{KeyFailedChecksum: random[:257]}, wantErr: "256 bytes"},
		"host keys of 8 KiB":  {data: map[string][]byte{KeySSHHostKeys: random[:8<<10]}},
		"host keys above it":  {data: map[string][]byte{KeySSHHostKeys: random[:8<<10+1]}, wantErr: "8 KiB"},
		"probes above 64 KiB": {data: map[string][]byte{KeyProbeStatuses: random[:65<<10]}, wantErr: "64 KiB"},
		"many values": {data: map[string][]byte{KeyFailedOutput: packed(t, entries(9000, "1"))},
			wantErr: "8192 JSON values"},
		"1 MiB in two keys":   {data: twoKeys(t, 500<<10)},
		"1.2 MiB in two keys": {data: twoKeys(t, 600<<10), wantErr: "more than 1 MiB in all reports"},
		"a malformed gzip bomb": {data: map[string][]byte{KeyFailedOutput: packed(t, strings.Repeat("A", 16<<20))},
			wantErr: "1 MiB"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var err error
			allocations.AtMost(t, mostAllocated, func() { err = CheckReport(tc.data) })
			if tc.wantErr == "" {
				if err != nil {
					t.Errorf("the report is refused: %v", err)
				}
				return
			}
			if !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("error is %v, want one with %q", err, tc.wantErr)
			}
		})
	}
}

func TestCountValues_IgnoresStrings(t *testing.T) {
	for text, want := range map[string]int{
		``: 1, `{}`: 2, `[1,2]`: 3, `{"a":1,"b":[{}]}`: 5, `"a,b"`: 1, `["a\",[{",1]`: 3, `["\\",1]`: 3, `"\`: 1, `"`: 1,
		`["\\\"[",","]`: 3,
	} {
		if got := CountValues([]byte(text)); got != want {
			t.Errorf("%s has %d values, want %d", text, got, want)
		}
	}
}

func twoKeys(tb testing.TB, each int) map[string][]byte {
	tb.Helper()
	text := packed(tb, `{"a":"`+strings.Repeat("A", each)+`"}`)
	return map[string][]byte{KeyAppliedOutput: text, KeyFailedOutput: text}
}

// FuzzReports looks for reports that cost more memory than a small multiple of the budget, or that the endpoint accepts
// although the decoder calls them too large.
func FuzzReports(f *testing.F) {
	f.Add([]byte(`{"a":"aGk="}`), []byte(`{"a":{"stdout":"aGk=","exitCode":1}}`), []byte(`{"a":{"healthy":true}}`))
	f.Add([]byte(entries(5000, "null")), []byte(entries(5000, "{}")), []byte(entries(5000, "{}")))
	f.Add([]byte(`[[[[[[[[`), []byte(`{"a":[1,2,3]}`), []byte(`{"a":{"\u0000":"\ud800"}}`))
	f.Fuzz(func(t *testing.T, once, periodic, probes []byte) {
		data := map[string][]byte{
			KeyPlan: []byte("{}"), KeyAppliedOutput: packed(t, string(once)), KeyFailedOutput: once,
			KeyAppliedPeriodicOutput: packed(t, string(periodic)), KeyProbeStatuses: probes,
		}
		var err error
		allocations.AtMost(t, mostAllocated, func() { _, err = Parse("ns/p", data) })
		if refused := CheckReport(data); errors.Is(err, ErrTooLarge) && refused == nil {
			t.Errorf("the endpoint accepts what the decoder refuses: %v", err)
		}
	})
}

// FuzzDecode looks for plans that cost more memory than a small multiple of their size.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"files":[{"path":"/a"},{}],"instructions":[{"args":["a",""]}],"probes":{"a":{}}}`))
	f.Add([]byte(`{"files":[{}` + strings.Repeat(",{}", 16000) + `]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		allocations.AtMost(t, 32<<20+8*uint64(len(text)), func() { _, _ = Decode(text) })
	})
}

package agent

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// A directory at the path of the position file simulates a full or read-only disk. Root can write everywhere else.
func TestLocal_UnwritablePositionDoesNotRepeatThePlan(t *testing.T) {
	a, dir := newTestApplier(t)
	path, pos, ran := filepath.Join(dir, "one.plan"), filepath.Join(dir, "one.pos"), filepath.Join(dir, "ran")
	write := func(script string) string {
		text := strings.Replace(echoPlan, "echo hi", script, 1)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return text
	}
	write("echo first >> " + ran)
	if err := os.MkdirAll(filepath.Join(pos, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	l := &localSource{dir: dir, applier: a, log: quiet()}
	passes := func(want string) {
		t.Helper()
		for range 3 {
			if err := l.pass(t.Context(), path); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(ran); err != nil || string(got) != want {
			t.Errorf("commands that ran = %q, %v; want %q", got, err, want)
		}
	}
	passes("first\n")
	second := write("echo second >> " + ran)
	passes("first\nsecond\n")
	if err := os.RemoveAll(pos); err != nil {
		t.Fatal(err)
	}
	passes("first\nsecond\n")
	if got := readPosition(pos); got.AppliedChecksum != nodeplan.Checksum([]byte(second)) || len(l.unwritten) != 0 {
		t.Errorf("position after the disk was repaired = %+v, unwritten %v", got, l.unwritten)
	}
}

func TestEncodePeriodic_CanBeReadAgain(t *testing.T) {
	for name, tc := range map[string]struct{ many, size, want int }{
		"small output":  {1, 100, 100},
		"long output":   {3, 400 << 10, maxLongOutput},
		"many outputs":  {200, 30 << 10, 0},
		"nothing to do": {1, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			res := result{periodic: map[string]plan.PeriodicInstructionOutput{}}
			for i := range tc.many {
				res.periodic[strconv.Itoa(i)] = plan.PeriodicInstructionOutput{Stdout: noise(tc.size), Failures: 1}
			}
			encoded, err := encodePeriodic(res)
			if err != nil {
				t.Fatal(err)
			}
			got, err := nodeplan.DecodePeriodicOutput(encoded)
			if err != nil || len(got) != tc.many || got["0"].Failures != 1 || len(got["0"].Stdout) != tc.want {
				t.Errorf("%d outputs, %d bytes, %v", len(got), len(got["0"].Stdout), err)
			}
		})
	}
}

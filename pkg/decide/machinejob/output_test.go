package machinejob_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/pkg/decide/machinejob"
)

func TestKeepsOutput(t *testing.T) {
	job := func(phase machinejob.Phase, attempt int) machinejob.JobState {
		return machinejob.JobState{Name: "job", Phase: phase, Attempt: attempt}
	}
	made := job(machinejob.PhaseSucceeded, 0)
	for name, c := range map[string]struct {
		create  machinejob.JobState
		removes []machinejob.JobState
		kept    []string
		want    string
	}{
		"no Job":                 {},
		"a running Job":          {create: job(machinejob.PhaseRunning, 0)},
		"a failed Job":           {create: job(machinejob.PhaseFailed, 0), want: "create"},
		"a successful Job":       {create: made, want: "create"},
		"a Job with kept output": {create: made, kept: []string{"create"}},
		"a running removal":      {create: made, removes: []machinejob.JobState{job(machinejob.PhaseRunning, 1)}},
		"a failed removal":       {removes: []machinejob.JobState{job(machinejob.PhaseFailed, 1)}, want: "remove-1"},
		"a successful removal":   {removes: []machinejob.JobState{job(machinejob.PhaseSucceeded, 1)}},
		"another attempt that failed": {removes: []machinejob.JobState{job(machinejob.PhaseFailed, 2)},
			kept: []string{"remove-1"}, want: "remove-2"},
	} {
		t.Run(name, func(t *testing.T) {
			kept := map[string][]byte{}
			for _, key := range c.kept {
				kept[key] = nil
			}
			got, ok := machinejob.Snapshot{Create: c.create, Removes: c.removes}.KeepsOutput(kept)
			if ok != (c.want != "") || ok && machinejob.OutputKey(got) != c.want {
				t.Errorf("keeps %s %t, want %q", machinejob.OutputKey(got), ok, c.want)
			}
		})
	}
}

func TestOutputs_LastOneIsKept(t *testing.T) {
	kept := map[string][]byte{"create": []byte("a"), "remove-9": []byte("b"), "remove-10": []byte("c")}
	if diff := cmp.Diff([]string{"remove-9"},
		machinejob.OutdatedOutputs(kept, machinejob.JobState{Attempt: 10})); diff != "" {
		t.Errorf("outdated (-want +got):\n%s", diff)
	}
	delete(kept, "remove-9")
	if text, ok := machinejob.LastOutput(kept); string(text) != "c" || !ok {
		t.Errorf("the last output is %q, %t", text, ok)
	}
	delete(kept, "remove-10")
	if text, ok := machinejob.LastOutput(kept); string(text) != "a" || !ok {
		t.Errorf("the last output is %q, %t", text, ok)
	}
	if _, ok := machinejob.LastOutput(nil); ok {
		t.Error("there is an output")
	}
}

func TestClipOutput(t *testing.T) {
	long := strings.Repeat("x", machinejob.MostOutput)
	for name, c := range map[string]struct{ output, want string }{
		"short":         {"a\nb\n", "a\nb\n"},
		"long":          {"first\n" + long[:machinejob.MostOutput-4] + "\nend\n", "end\n"},
		"one long line": {long + "end", (long + "end")[3:]},
	} {
		if got := machinejob.ClipOutput(c.output); got != c.want {
			t.Errorf("%s: %d bytes, want %d", name, len(got), len(c.want))
		}
	}
}

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// Every invariant and every weakness has one fault.
func TestTables_NameEveryInvariantAndWeakness(t *testing.T) {
	var want []string
	for i := 1; i <= 33; i++ {
		want = append(want, fmt.Sprintf("I%d", i))
	}
	for i := 1; i <= 38; i++ {
		if i != 16 { // it was about Windows, which Drover does not support
			want = append(want, fmt.Sprintf("W%d", i))
		}
	}
	var got []string
	for _, m := range slices.Concat(invariants, weaknesses) {
		got = append(got, m.name)
	}
	for _, name := range want {
		if n := len(slices.DeleteFunc(slices.Clone(got), func(o string) bool { return o != name })); n != 1 {
			t.Errorf("%s occurs %d times, want once", name, n)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d names are known, but %d are listed", len(want), len(got))
	}
}

// The texts of all faults exist in their files, and so do the tests that must detect them.
func TestTables_MatchTheCode(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range slices.Concat(invariants, weaknesses) {
		t.Run(m.name, func(t *testing.T) {
			if _, err := m.apply(root); err != nil {
				t.Error(err)
			}
			if m.breaks == "" {
				t.Error("breaks must not be empty")
			}
			if !hasTest(t, filepath.Join(root, m.tests), regexp.MustCompile(m.run)) {
				t.Errorf("no test in %s matches %s", m.tests, m.run)
			}
		})
	}
}

var testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)

func hasTest(t *testing.T, dir string, run *regexp.Regexp) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(testFunction.FindAllSubmatch(content, -1), func(found [][]byte) bool {
			return run.Match(found[1])
		})
	})
}

func TestApply(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "f.go"), []byte("one two,two"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		m    mutant
		want string
		err  bool
	}{
		"a text that occurs once":      {mutant{file: "f.go", old: "one", fault: "three"}, "three two,two", false},
		"a text that occurs twice":     {mutant{file: "f.go", old: "two", fault: "three"}, "", true},
		"a missing text":               {mutant{file: "f.go", old: "four", fault: "three"}, "", true},
		"a fault that changes nothing": {mutant{file: "f.go", old: "one", fault: "one"}, "", true},
		"a missing file":               {mutant{file: "g.go", old: "one", fault: "three"}, "", true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := tc.m.apply(root)
			if string(got) != tc.want || (err != nil) != tc.err {
				t.Errorf("got %q and %v", got, err)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	failed := &exec.ExitError{}
	tests := map[string]struct {
		output string
		err    error
		want   fate
	}{
		"a test fails":                     {"--- FAIL: TestA (0.00s)\nFAIL", failed, caught},
		"the fault panics":                 {"panic: index out of range\nFAIL", failed, caught},
		"the fault hangs":                  {"panic: test timed out after 2m0s\nFAIL", failed, caught},
		"all tests pass":                   {"ok  \tpkg\t0.1s", nil, survived},
		"no test has the name":             {"ok  \tpkg\t0.1s [no tests to run]", nil, broken},
		"the fault does not compile":       {"FAIL\tpkg [build failed]", failed, broken},
		"the package does not exist":       {"FAIL\tpkg [setup failed]", failed, broken},
		"go test fails for another reason": {"go: cannot find GOROOT", failed, broken},
		"go test cannot be started":        {"", errors.New("executable file not found"), broken},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got, reason := judge(tc.output, tc.err); got != tc.want {
				t.Errorf("fate %d (%s), want %d", got, reason, tc.want)
			}
		})
	}
}

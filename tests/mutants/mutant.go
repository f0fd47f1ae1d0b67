package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// mutant is one fault and the tests that must detect it.
type mutant struct {
	// name is the number of the invariant (I7) or the weakness (W13).
	name string
	// breaks describes the effect of the fault in a sentence.
	breaks string
	// file is a path from the root of the repository. old is a text that occurs once in it, and fault is its
	// replacement.
	file, old, fault string
	// tests is the package whose tests must fail. run selects them, as in go test -run.
	tests, run string
}

// limit is the time limit for the built tests of one mutant, because a fault may make them hang.
const limit = 2 * time.Minute

// fate is the result of a mutant.
type fate int

const (
	caught fate = iota
	survived
	broken // it proves nothing about the tests and must be repaired
)

// outcome is the fate of a mutant with the output of its tests.
type outcome struct {
	mutant
	fate   fate
	reason string
	output string
	took   time.Duration
}

// apply returns the content of the mutant's file with the fault in it.
func (m mutant) apply(root string) ([]byte, error) {
	content, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return nil, fmt.Errorf("mutant %s: %w", m.name, err)
	}
	switch n := bytes.Count(content, []byte(m.old)); {
	case m.old == m.fault:
		return nil, fmt.Errorf("mutant %s changes nothing", m.name)
	case n != 1:
		return nil, fmt.Errorf("mutant %s: the text to change occurs %d times in %s, want once; edit the mutant:\n%s",
			m.name, n, m.file, m.old)
	}
	return bytes.Replace(content, []byte(m.old), []byte(m.fault), 1), nil
}

// try runs the tests of a mutant with its fault. flags go to the test program.
func (m mutant) try(ctx context.Context, root string, flags []string) outcome {
	start := time.Now()
	out := outcome{mutant: m}
	overlay, remove, err := m.overlay(root)
	if err != nil {
		out.fate, out.reason = broken, err.Error()
		return out
	}
	defer remove()
	output, err := goTest(ctx, root, m.tests, m.run, append([]string{"-overlay", overlay}, flags...)...)
	out.took, out.output = time.Since(start), output
	out.fate, out.reason = judge(output, err)
	return out
}

// overlay writes the faulty file and the overlay list, both outside the tree.
func (m mutant) overlay(root string) (path string, remove func(), err error) {
	content, err := m.apply(root)
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "mutant-"+m.name+"-")
	if err != nil {
		return "", nil, fmt.Errorf("mutant %s: %w", m.name, err)
	}
	remove = func() { os.RemoveAll(dir) }
	faulty, path := filepath.Join(dir, filepath.Base(m.file)), filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(root, m.file): faulty}})
	if err = errors.Join(err, os.WriteFile(faulty, content, 0o600), os.WriteFile(path, list, 0o600)); err != nil {
		remove()
		return "", nil, fmt.Errorf("mutant %s: %w", m.name, err)
	}
	return path, remove, nil
}

// judge decides from the output of go test whether the tests have detected the fault.
func judge(output string, err error) (fate, string) {
	var exit *exec.ExitError
	switch {
	case strings.Contains(output, "[build failed]"), strings.Contains(output, "[setup failed]"):
		return broken, "it does not compile"
	case strings.Contains(output, "no tests to run"):
		return broken, "the test does not exist"
	case err == nil:
		return survived, "no test failed"
	case !errors.As(err, &exit):
		return broken, err.Error()
	case strings.Contains(output, "panic: test timed out"):
		return caught, "the tests exceeded their time limit"
	case strings.Contains(output, "--- FAIL"), strings.Contains(output, "panic: "):
		return caught, ""
	}
	return broken, "go test failed without a failed test"
}

// goTest runs tests of a package of the repository's main module. Random models use a fixed seed.
func goTest(ctx context.Context, root, pkg, run string, flags ...string) (string, error) {
	args := []string{"test", "-count=1", "-vet=off", "-timeout", limit.String(), "-run", run, "./" + pkg}
	args = append(args, flags...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false "+os.Getenv("GOFLAGS"))
	output, err := cmd.CombinedOutput()
	return string(output), err
}

// modelFlags are for test programs with random models: a fixed seed, no file with findings in the tree, and no time for
// shrinking.
var modelFlags = []string{"-rapid.seed=1", "-rapid.checks=300", "-rapid.nofailfile", "-rapid.shrinktime=1ms"}

// flagsOf returns the flags for the test program of a package.
func flagsOf(ctx context.Context, root, pkg string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-f", "{{.TestImports}} {{.XTestImports}}", "./"+pkg)
	cmd.Dir = root
	imports, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the imports of the tests of %s: %w", pkg, err)
	}
	if bytes.Contains(imports, []byte("pgregory.net/rapid")) {
		return modelFlags, nil
	}
	return nil, nil
}

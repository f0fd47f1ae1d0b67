package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	all, err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	case !all:
		os.Exit(1)
	}
}

// run tries the selected mutants. It returns false unless the tests detected all of them.
func run(ctx context.Context, args []string, out io.Writer) (bool, error) {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	pattern := flags.String("run", "", "only mutants whose complete names match this `regex`")
	jobs := flags.Int("jobs", 2, "how many mutants run at a time")
	verbose := flags.Bool("v", false, "print the output of each mutant's tests")
	if err := flags.Parse(args); err != nil {
		return false, err
	}
	selected, err := selectMutants(*pattern)
	if err != nil {
		return false, err
	}
	root, err := filepath.Abs("..")
	if err != nil {
		return false, err
	}
	programs, err := baseline(ctx, root, selected, out)
	if err != nil {
		return false, err
	}
	results := tryAll(ctx, root, selected, programs, *jobs, func(o outcome) { printOutcome(out, o, *verbose) })
	if err := ctx.Err(); err != nil {
		return false, err
	}
	return summary(out, results), nil
}

func selectMutants(pattern string) ([]mutant, error) {
	expression, err := regexp.Compile("^(?:" + pattern + ")$")
	if err != nil {
		return nil, fmt.Errorf("-run: %w", err)
	}
	all := slices.Concat(invariants, weaknesses)
	selected := slices.DeleteFunc(all, func(m mutant) bool { return pattern != "" && !expression.MatchString(m.name) })
	if len(selected) == 0 {
		return nil, fmt.Errorf("no mutant has the name %s", pattern)
	}
	return selected, nil
}

// baseline runs all the tests without a fault, because a failing test detects nothing. It returns the flags of each
// package's tests.
func baseline(ctx context.Context, root string, mutants []mutant, out io.Writer) (map[string][]string, error) {
	start := time.Now()
	patterns := map[string][]string{}
	for _, m := range mutants {
		if !slices.Contains(patterns[m.tests], m.run) {
			patterns[m.tests] = append(patterns[m.tests], m.run)
		}
	}
	programs := map[string][]string{}
	for _, pkg := range slices.Sorted(maps.Keys(patterns)) {
		flags, err := flagsOf(ctx, root, pkg)
		if err != nil {
			return nil, err
		}
		programs[pkg] = flags
		output, err := goTest(ctx, root, pkg, strings.Join(patterns[pkg], "|"), flags...)
		if err != nil || strings.Contains(output, "no tests to run") {
			return nil, fmt.Errorf("without any fault, the tests of %s must pass:\n%s", pkg, output)
		}
	}
	fmt.Fprintf(out, "without a fault all tests pass (%s)\n", time.Since(start).Round(time.Second))
	return programs, nil
}

// tryAll tries mutants in parallel. Results are in the order of the mutants.
func tryAll(ctx context.Context, root string, mutants []mutant, programs map[string][]string, jobs int,
	done func(outcome)) []outcome {
	results := make([]outcome, len(mutants))
	slots := make(chan struct{}, max(1, jobs))
	var wait sync.WaitGroup
	var mu sync.Mutex
	for i, m := range mutants {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			o := m.try(ctx, root, programs[m.tests])
			mu.Lock()
			defer mu.Unlock()
			results[i] = o
			if ctx.Err() == nil {
				done(o)
			}
		})
	}
	wait.Wait()
	return results
}

func printOutcome(out io.Writer, o outcome, verbose bool) {
	words := map[fate]string{caught: "caught", survived: "SURVIVED", broken: "ERROR"}
	line := fmt.Sprintf("%-4s %-9s %5.1fs  %s", o.name, words[o.fate], o.took.Seconds(), o.breaks)
	if o.reason != "" {
		line += " (" + o.reason + ")"
	}
	fmt.Fprintln(out, line)
	if verbose || o.fate == broken {
		fmt.Fprintln(out, o.output)
	}
}

// summary prints the undetected mutants and then the count.
func summary(out io.Writer, results []outcome) bool {
	count := 0
	for _, o := range results {
		switch o.fate {
		case caught:
			count++
		case survived:
			fmt.Fprintf(out, "survived: %s: %s; %s in %s must notice\n", o.name, o.breaks, o.run, o.tests)
		case broken:
			fmt.Fprintf(out, "error: %s: %s\n", o.name, o.reason)
		}
	}
	fmt.Fprintf(out, "caught %d/%d\n", count, len(results))
	return count == len(results)
}

package main

import (
	"flag"
	"slices"
	"strings"
	"testing"
)

// TestLinking_AddsOneFlag: a host must know which names of the process-wide flags are taken; the documentation of
// package server says so.
func TestLinking_AddsOneFlag(t *testing.T) {
	var taken []string
	flag.VisitAll(func(f *flag.Flag) {
		if !strings.HasPrefix(f.Name, "test.") {
			taken = append(taken, f.Name)
		}
	})
	if want := []string{"kubeconfig"}; !slices.Equal(taken, want) {
		t.Errorf("linking Drover takes the flags %q, want %q", taken, want)
	}
}

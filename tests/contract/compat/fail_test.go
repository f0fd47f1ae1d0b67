package compat

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
)

// sample is a kind with two lists, to show that the checks can fail.
type sample struct {
	Spec struct{} `json:"spec"`
	One  string   `json:"one"`
	Many []part   `json:"many"`
}

type part struct {
	Old string          `json:"old"`
	New string          `json:"new"`
	Of  map[string]part `json:"-"`
}

// TestProblemsOf_FindsMistakes shows that the checks of a kind can fail.
func TestProblemsOf_FindsMistakes(t *testing.T) {
	got := problemsOf(Kind{
		Object: sample{},
		Works:  []string{"many[]: old"},
		Rows: []Row{
			{"one many[].old", NoEffect, ""},
			{"gone", Absent, "a text"},
			{"spec", Works, ""},
		},
	})
	slices.Sort(got)
	want := []string{
		"gone is no field: remove the entry",
		"many[].new has no verdict: read the code that uses the field, and add an entry",
		"many[].old has two verdicts",
		"many[].old needs a text",
		"one needs a text",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

// TestProblemsOfWarnings_FindsMistakes shows that verdicts and warnings can disagree.
func TestProblemsOfWarnings_FindsMistakes(t *testing.T) {
	got := problemsOfWarnings(Kind{Object: provv1.Cluster{}, Rows: []Row{
		{"spec", Works, ""},
		{"spec.kubernetesVersion", NoEffect, "a text"},
	}})
	for _, want := range []string{
		"spec.kubernetesVersion has no effect, but topology.WithoutEffect does not report it",
		`spec.defaultPodSecurityPolicyTemplateName: topology.WithoutEffect reports it, but the verdict is "works"`,
	} {
		if !slices.Contains(got, want) {
			t.Errorf("missing %q in %q", want, got)
		}
	}
}

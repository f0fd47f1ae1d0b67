package rights

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// recorder is a test that may fail.
type recorder struct {
	testing.TB
	failed int
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failed++ }

func TestPermit_RefusesWhatTheChartDoesNotGive(t *testing.T) {
	t.Setenv(Record, t.TempDir())
	tb := &recorder{TB: t}
	api := memkube.New(memkube.Options{Permit: Permit(tb, "drover/")})
	ours, err := kubernetes.NewForConfig(api.Config("drover/test"))
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := kubernetes.NewForConfig(api.Config("somebody"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ours.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); err != nil || tb.failed != 0 {
		t.Errorf("what the role permits: %v", err)
	}
	if _, err := theirs.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil || tb.failed != 0 {
		t.Errorf("somebody else: %v", err)
	}
	if _, err := ours.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) || tb.failed != 1 {
		t.Errorf("what no role permits: %v, and the test failed %d times", err, tb.failed)
	}
}

func TestUsed_IsWhatTestProgramsHaveWritten(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(Record, dir)
	seen := usage{seen: map[Grant]bool{}}
	for _, name := range []string{"secrets", "jobs", "secrets"} {
		seen.add(Grant{Role: "drover", Request: Request{Verb: "get", Resource: name}})
	}
	used, err := Used(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]bool{"get secrets": true, "get jobs": true}, used); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestChart_HasNoRightsOfTheCore(t *testing.T) {
	grants, err := chart()
	if err != nil {
		t.Fatal(err)
	}
	can := func(verb, group, resource string) bool {
		return slices.ContainsFunc(grants, func(g Grant) bool { return g.Covers(Request{Verb: verb, Group: group, Resource: resource}) })
	}
	if !can("patch", "cluster.x-k8s.io", "machines") || can("create", "cluster.x-k8s.io", "machines") {
		t.Error("these are not the rights of Drover's own controllers")
	}
}

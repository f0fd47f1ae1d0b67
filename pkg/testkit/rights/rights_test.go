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

// recorder is a testing.TB that records failures.
type recorder struct {
	testing.TB
	failed int
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failed++ }

func TestPermit_RefusesRightsOutsideTheChart(t *testing.T) {
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
	if _, err := ours.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); err != nil ||
		tb.failed != 0 {
		t.Errorf("a permitted request: %v", err)
	}
	if _, err := theirs.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil || tb.failed != 0 {
		t.Errorf("another client: %v", err)
	}
	if _, err := ours.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) ||
		tb.failed != 1 {
		t.Errorf("a forbidden request: %v, and the test failed %d times", err, tb.failed)
	}
}

func TestPermit_RefusesNothingWhileRecording(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(Record, dir)
	t.Setenv(Unbound, "true")
	permit := Permit(t, "drover/")
	request := memkube.Request{Agent: "drover/test", Verb: "update", Subresource: "status", Name: "a"}
	request.Resource.Resource = "nodes"
	if err := permit(request); err != nil {
		t.Error(err)
	}
	used, err := Used(dir)
	if want := []Grant{{Own, Request{Verb: "update", Resource: "nodes/status", Name: "a"}}}; err != nil ||
		!slices.Equal(used, want) {
		t.Errorf("recorded %v (%v), want %v", used, err, want)
	}
}

func TestUsed_ReadsRecordsOfTestPrograms(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(Record, dir)
	seen := usage{seen: map[Request]bool{}}
	for _, name := range []string{"secrets", "jobs", "secrets"} {
		seen.add(Request{Verb: "get", Resource: name, Namespace: "default", Name: "a b"})
	}
	used, err := Used(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []Grant{
		{Own, Request{Verb: "get", Resource: "jobs", Namespace: "default", Name: "a b"}},
		{Own, Request{Verb: "get", Resource: "secrets", Namespace: "default", Name: "a b"}},
	}
	if diff := cmp.Diff(want, used); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOwn_HasNoRightsOfClusterAPI(t *testing.T) {
	grants, err := own()
	if err != nil {
		t.Fatal(err)
	}
	can := func(verb, group, resource string) bool {
		return slices.ContainsFunc(grants, func(g Grant) bool {
			return g.Covers(Request{Verb: verb, Group: group, Resource: resource})
		})
	}
	if !can("patch", "cluster.x-k8s.io", "machines") || can("create", "cluster.x-k8s.io", "machinesets") {
		t.Error("the rights must be those of Drover's own controllers")
	}
}

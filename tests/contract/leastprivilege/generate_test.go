package leastprivilege

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/pkg/testkit/rights"
	"github.com/drover-io/drover/tests/charts"
	"github.com/drover-io/drover/tests/contract/plane"
)

var update = flag.Bool("update", false, "rewrite the rules of the chart's roles")

// unbind permits everything to Drover, so that the test also finds the requests that would follow a rejected one.
func unbind(t *testing.T, admin client.Client) {
	t.Helper()
	check(t, admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "drover-update"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: charts.SystemNamespace,
			Name: "drover"}},
	}))
}

// check compares the rules of the chart's roles with the rules for the requests and the exceptions. It fails for
// unnecessary exceptions. With -update it writes the rules.
func (in *installation) check(t *testing.T) {
	t.Helper()
	asked := slices.Concat(in.recorder.report(t), usedInMemory(t))
	never, sometimes := granted(t, exceptions), granted(t, atTimes)
	rules, err := rights.Generate(rights.Purposes, slices.Concat(asked, never, sometimes))
	if err != nil {
		t.Errorf("pkg/testkit/rights/purposes.go does not match the requests:\n%v", err)
	}
	needless, err := rights.Needless(rights.Purposes, slices.Concat(asked, sometimes), never)
	if err != nil {
		t.Errorf("the needed exceptions are unknown: %v", err)
	}
	for _, grant := range needless {
		t.Errorf("used, so remove it from exceptions_test.go: role %s, %s", grant.Role, grant.Request)
	}
	path := filepath.Join(plane.Root(t), rights.File)
	switch {
	case !*update:
		compare(t, path, rules)
	case t.Failed():
		t.Errorf("%s is not written, because some permissions were not used", rights.File)
	default:
		check(t, os.WriteFile(path, rules.YAML(), 0o644))
	}
}

func compare(t *testing.T, path string, want rights.Rules) {
	t.Helper()
	content, err := os.ReadFile(path)
	check(t, err)
	have, err := rights.Parse(content)
	check(t, err)
	permitted, needed := have.Grants(), want.Grants()
	for _, grant := range permitted {
		if !slices.Contains(needed, grant) {
			t.Errorf("neither used nor an exception: role %s, %s", grant.Role, grant.Request)
		}
	}
	for _, grant := range needed {
		if !slices.Contains(permitted, grant) {
			t.Errorf("used or an exception, but not permitted: role %s, %s", grant.Role, grant.Request)
		}
	}
	if yaml := want.YAML(); !bytes.Equal(content, yaml) {
		t.Errorf("%s is outdated; its first lines say how to generate it (-want +got):\n%s", rights.File,
			cmp.Diff(string(yaml), string(content)))
	}
}

// report returns the requests, and fails the test for rejected ones.
func (r *recorder) report(t *testing.T) []rights.Grant {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []rights.Grant
	for _, by := range []part{own, core} {
		var lines []string
		for asked, times := range summary(r.asked[by]) {
			lines = append(lines, fmt.Sprintf("%5d %s", times, asked))
		}
		slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[6:], b[6:]) })
		t.Logf("requests of %s:\n%s", by, strings.Join(lines, "\n"))
		for asked := range r.asked[by] {
			out = append(out, rights.Grant{Role: string(by), Request: asked})
		}
	}
	for _, asked := range slices.SortedFunc(maps.Keys(r.refused), rights.Request.Compare) {
		t.Errorf("refused to %s: %s", r.refused[asked], asked)
	}
	return out
}

// summary counts the requests without names.
func summary(all map[rights.Request]int) map[string]int {
	out := map[string]int{}
	for asked, times := range all {
		asked.Name = ""
		if asked.Namespace != "" && asked.Namespace != charts.SystemNamespace {
			asked.Namespace = "…"
		}
		out[asked.String()] += times
	}
	return out
}

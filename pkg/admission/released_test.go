package admission_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/pkg/admission"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/testkit/build"
)

// released marks a Cluster as released by another Drover.
func released(c *provv1.Cluster) {
	delete(c.Annotations, rkev1.InstanceAnnotation)
	c.Annotations[rkev1.ReleasedByAnnotation] = "first"
}

// A released Cluster keeps a wrong value, and the user who brings it gets a warning.
func TestDecide_WarnsOfAReleasedClusterWithWhatItRefusesOfANewOne(t *testing.T) {
	t.Parallel()
	tolerated := func(c *provv1.Cluster) { pool(c, 0).UnhealthyRange = new("[5-3]") }
	customized := func(c *provv1.Cluster) {
		c.Spec.ClusterAgentDeploymentCustomization = &provv1.AgentDeploymentCustomization{
			AppendTolerations: []corev1.Toleration{{Key: "a b"}},
		}
	}
	const unhealthy, toleration = "spec.rkeConfig.machinePools[0].unhealthyRange", "spec.clusterAgentDeploymentCustomization"
	marked := func(mark string) func(*provv1.Cluster) {
		return func(c *provv1.Cluster) { c.Annotations[rkev1.InstanceAnnotation] = mark }
	}
	for name, tc := range map[string]struct {
		before, after *provv1.Cluster
		want, warned  string
	}{
		"a range without a number":                  {nil, demo(tolerated, released), "", unhealthy},
		"a toleration that cannot be deployed":      {nil, demo(customized, released), "", toleration},
		"servers that register themselves later":    {nil, demo(released, func(c *provv1.Cluster) { *pool(c, 0) = build.Pool("all", "w", 1) }), "", ""},
		"nothing wrong":                             {nil, demo(released), "", ""},
		"of a new Cluster":                          {nil, demo(tolerated), unhealthy, ""},
		"of one that nobody let go of":              {nil, demo(tolerated, unmarked, func(c *provv1.Cluster) { c.Annotations[rkev1.ReleasedByAnnotation] = "" }), unhealthy, ""},
		"of one with a mark, that is acted on":      {nil, demo(tolerated, released, marked(instance)), unhealthy, ""},
		"brought in by an edit of one that is here": {demo(released), demo(released, tolerated), unhealthy, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := decide(t, ofCluster(t, facts(t), tc.before, tc.after))
			if got := topology.Explain(a.Errors); (got == "") != (tc.want == "") || !strings.HasPrefix(got, tc.want) {
				t.Errorf("refused: %q", got)
			}
			if got := strings.Join(a.Warnings, "; "); (got == "") != (tc.warned == "") || !strings.HasPrefix(got, tc.warned) {
				t.Errorf("warned: %q", got)
			}
		})
	}
}

func TestComplete_LeavesTheCreatorOfAReleasedClusterToWhoIsTrusted(t *testing.T) {
	t.Parallel()
	by := func(creator string) func(*provv1.Cluster) {
		return func(c *provv1.Cluster) { c.Annotations[provv1.CreatorIDAnnotation] = creator }
	}
	operator := []admission.Patch{{Op: "add", Path: "/metadata/annotations/field.cattle.io~1creatorId", Value: "operator"}}
	for name, tc := range map[string]struct {
		after   *provv1.Cluster
		trust   admission.Trust
		want    []admission.Patch
		warned  bool
		matters bool
	}{
		"brought by who is trusted":              {demo(released, by("alice")), admission.Trusted, nil, false, true},
		"that had none, by who is trusted":       {demo(released), admission.Trusted, nil, false, true},
		"put together by a tenant":               {demo(released, by("alice")), admission.Untrusted, operator, false, true},
		"brought while nobody answers":           {demo(released, by("alice")), admission.TrustUnknown, operator, true, true},
		"of whoever brings it":                   {demo(released, by("operator")), admission.TrustUnknown, nil, false, false},
		"that shall have none":                   {demo(released, func(c *provv1.Cluster) { c.Annotations["field.cattle.io/no-creator-rbac"] = "true" }), admission.TrustUnknown, nil, false, false},
		"a new Cluster, by who would be trusted": {demo(by("alice")), admission.Trusted, operator, false, false},
		"a new Cluster, which nobody asks about": {demo(unmarked, by("alice")), admission.TrustUnknown, operator, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := request(t, "provisioning.cattle.io", "clusters", facts(t, func(f *admission.Facts) { f.Trust = tc.trust }), nil, tc.after)
			r.User.Username = "operator"
			a := complete(t, r)
			if diff := cmp.Diff(tc.want, a.Patches); diff != "" {
				t.Error(diff)
			}
			if (len(a.Warnings) > 0) != tc.warned || tc.warned && !strings.Contains(a.Warnings[0], "operator may create clusters.management.cattle.io") {
				t.Errorf("warned: %q", a.Warnings)
			}
			if got := admission.TrustMatters(r); got != tc.matters {
				t.Errorf("it matters whether the user is trusted: %t", got)
			}
		})
	}
}

// Trust matters only when a Cluster is created.
func TestTrustMatters_OfNewClustersOnly(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]admission.Request{
		"an update":             request(t, "provisioning.cattle.io", "clusters", facts(t), demo(released), demo(released)),
		"a deletion":            request(t, "provisioning.cattle.io", "clusters", facts(t), demo(released), nil),
		"another kind":          request(t, "provisioning.cattle.io", "others", facts(t), nil, demo(released)),
		"what cannot be read":   request(t, "provisioning.cattle.io", "clusters", facts(t), nil, "no object"),
		"a cluster of no group": request(t, "", "clusters", facts(t), nil, demo(released)),
	} {
		if admission.TrustMatters(r) {
			t.Errorf("%s: the user is asked about", name)
		}
	}
}

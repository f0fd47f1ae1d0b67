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
func TestDecide_WarnsAboutErrorsOfReleasedClusters(t *testing.T) {
	t.Parallel()
	tolerated := func(c *provv1.Cluster) { pool(c, 0).UnhealthyRange = new("[5-3]") }
	customized := func(c *provv1.Cluster) {
		c.Spec.ClusterAgentDeploymentCustomization = &provv1.AgentDeploymentCustomization{
			AppendTolerations: []corev1.Toleration{{Key: "a b"}},
		}
	}
	const unhealthy, toleration = "spec.rkeConfig.machinePools[0].unhealthyRange",
		"spec.clusterAgentDeploymentCustomization"
	marked := func(mark string) func(*provv1.Cluster) {
		return func(c *provv1.Cluster) { c.Annotations[rkev1.InstanceAnnotation] = mark }
	}
	for name, tc := range map[string]struct {
		before, after *provv1.Cluster
		want, warned  string
	}{
		"a range without a number": {nil, demo(tolerated, released), "", unhealthy},
		"an invalid toleration":    {nil, demo(customized, released), "", toleration},
		"servers that register later": {nil, demo(released, func(c *provv1.Cluster) {
			*pool(c, 0) = build.Pool("all", "w", 1)
		}), "", ""},
		"a valid Cluster":  {nil, demo(released), "", ""},
		"of a new Cluster": {nil, demo(tolerated), unhealthy, ""},
		"of a Cluster that was not released": {nil, demo(tolerated, unmarked, func(c *provv1.Cluster) {
			c.Annotations[rkev1.ReleasedByAnnotation] = ""
		}), unhealthy, ""},
		"of a Cluster with a mark":                   {nil, demo(tolerated, released, marked(instance)), unhealthy, ""},
		"released by an edit of an existing Cluster": {demo(released), demo(released, tolerated), unhealthy, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := decide(t, ofCluster(t, facts(t), tc.before, tc.after))
			if got := topology.Explain(a.Errors); (got == "") != (tc.want == "") || !strings.HasPrefix(got, tc.want) {
				t.Errorf("refused: %q", got)
			}
			if got := strings.Join(a.Warnings, "; "); (got == "") != (tc.warned == "") ||
				!strings.HasPrefix(got, tc.warned) {
				t.Errorf("warned: %q", got)
			}
		})
	}
}

func TestComplete_KeepsTheCreatorOfAReleasedClusterForTrustedUsers(t *testing.T) {
	t.Parallel()
	by := func(creator string) func(*provv1.Cluster) {
		return func(c *provv1.Cluster) { c.Annotations[provv1.CreatorIDAnnotation] = creator }
	}
	operator := []admission.Patch{{Op: "add", Path: "/metadata/annotations/field.cattle.io~1creatorId",
		Value: "operator"}}
	for name, tc := range map[string]struct {
		after   *provv1.Cluster
		trust   admission.Trust
		want    []admission.Patch
		warned  bool
		matters bool
	}{
		"created by a trusted user":            {demo(released, by("alice")), admission.Trusted, nil, false, true},
		"without a creator, by a trusted user": {demo(released), admission.Trusted, nil, false, true},
		"created by an untrusted user": {demo(released, by("alice")), admission.Untrusted, operator, false,
			true},
		"created while the trust is unknown": {demo(released, by("alice")), admission.TrustUnknown, operator, true,
			true},
		"with the creator of the request": {demo(released, by("operator")), admission.TrustUnknown, nil, false, false},
		"explicitly without a creator": {demo(released, func(c *provv1.Cluster) {
			c.Annotations["field.cattle.io/no-creator-rbac"] = "true"
		}), admission.TrustUnknown, nil, false, false},
		"a new Cluster, by a trusted user": {demo(by("alice")), admission.Trusted, operator, false, false},
		"a new Cluster without a check": {demo(unmarked, by("alice")), admission.TrustUnknown, operator, false,
			false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := request(t, "provisioning.cattle.io", "clusters", facts(t, func(f *admission.Facts) {
				f.Trust = tc.trust
			}), nil, tc.after)
			r.User.Username = "operator"
			a := complete(t, r)
			if diff := cmp.Diff(tc.want, a.Patches); diff != "" {
				t.Error(diff)
			}
			if (len(a.Warnings) > 0) != tc.warned || tc.warned &&
				!strings.Contains(a.Warnings[0], "operator may create clusters.management.cattle.io") {
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
		"an update": request(t, "provisioning.cattle.io", "clusters", facts(t), demo(released),
			demo(released)),
		"a deletion":                request(t, "provisioning.cattle.io", "clusters", facts(t), demo(released), nil),
		"another kind":              request(t, "provisioning.cattle.io", "others", facts(t), nil, demo(released)),
		"an unreadable object":      request(t, "provisioning.cattle.io", "clusters", facts(t), nil, "no object"),
		"a cluster without a group": request(t, "", "clusters", facts(t), nil, demo(released)),
	} {
		if admission.TrustMatters(r) {
			t.Errorf("%s: the user is checked", name)
		}
	}
}

package webhook_test

import (
	"encoding/json"
	"strings"
	"testing"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/tenancy"
)

// The grants of a released Cluster stay valid if a trusted user brings it, with their authors. Other users grant what
// they may grant themselves. No request is refused in the middle of a move.
func TestGrants_ComeWithAReleasedCluster(t *testing.T) {
	t.Parallel()
	released := annotated(rkev1.ReleasedByAnnotation, "first")
	const later = "so Drover does not use it yet: after the adoption, a user who may get the Secret must set " +
		"annotation drover.io/granted-references of the Cluster to renew"
	const field = "spec.cloudCredentialSecretName: "
	for name, tc := range map[string]struct {
		user          string
		before, after *provv1.Cluster
		wantRefused   string
		wantWarned    string
		wantAuthor    string
	}{
		"by a mover who may not get the Secret": {user: "mover", after: granted(t, "cattle-global-data:hers", "alice",
			released), wantAuthor: "alice"},
		"by an administrator, after the author lost the right": {
			user: "admin", after: granted(t, "cattle-global-data:bobs", "alice", released), wantAuthor: "alice",
		},
		"without a grant, by a mover": {
			user: "mover", after: wanting("cattle-global-data:hers", released), wantWarned: field +
				"mover may not get Secret cattle-global-data/hers, " + later,
		},
		"without a grant, by an administrator": {user: "admin", after: wanting("cattle-global-data:hers", released),
			wantAuthor: "admin"},
		"without a grant, of an offered Secret": {user: "mover",
			after: wanting("cattle-global-data:offered", released)},
		"with a forged grant, by a mover": {
			user: "mover", wantWarned: "mover may not get", after: granted(t, "cattle-global-data:hers", "alice",
				released, func(c *provv1.Cluster) {
					c.Annotations[tenancy.GrantsAnnotation] = strings.ReplaceAll(
						c.Annotations[tenancy.GrantsAnnotation], "alice", "admin")
				}),
		},
		"with the grant of another Cluster, by a mover": {
			user: "mover", wantWarned: "mover may not get", after: granted(t, "cattle-global-data:hers", "alice",
				released, func(c *provv1.Cluster) { c.Name = "other" }),
		},
		"with old grants, by a tenant": {
			user: "bob", after: granted(t, "cattle-global-data:hers", "alice", released), wantWarned: field +
				"bob may not get Secret cattle-global-data/hers, " + later,
		},
		"with another user's grants, by a tenant who may get the Secret": {
			user: "alice", after: granted(t, "cattle-global-data:hers", "admin", released), wantAuthor: "alice",
		},
		"without grants, by a tenant with a forged release": {
			user: "bob", after: wanting("cattle-global-data:hers", released),
			wantWarned: "bob may not get Secret cattle-global-data/hers, " + later,
		},
		"with grants, while the trust in the user is unknown": {
			user: "unknown", after: granted(t, "cattle-global-data:hers", "alice", released),
			wantWarned: "could not check whether unknown may create clusters.management.cattle.io, so it removed " +
				"the grants of the Cluster",
		},
		"by a mover, with a mark": {
			user: "mover", after: granted(t, "cattle-global-data:hers", "alice", released,
				annotated(rkev1.InstanceAnnotation, "ours")), wantRefused: "mover may not get",
		},
		"to a Cluster that was not released": {
			user: "mover", after: granted(t, "cattle-global-data:hers", "alice",
				annotated(rkev1.ReleasedByAnnotation, "")), wantRefused: "mover may not get",
		},
		"by an edit of an existing Cluster": {
			user: "mover", before: wanting("x", released), after: granted(t, "cattle-global-data:hers", "alice",
				released), wantRefused: "mover may not get",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ask(t, tc.user, tc.before, tc.after)
			got.check(t, tc.wantRefused, tc.wantWarned, tc.wantAuthor)
			if got.stored != nil && tc.wantWarned == "" { // as if another webhook had changed something
				ask(t, tc.user, tc.before, got.stored).check(t, "", "", tc.wantAuthor)
			}
		})
	}
}

// Signatures keep their authors, including groups. References without one are reviewed as well.
func TestGrants_OfAReleasedClusterAreKeptSeparately(t *testing.T) {
	t.Parallel()
	two := func(c *provv1.Cluster) {
		c.Annotations[rkev1.ReleasedByAnnotation] = "first"
		c.Spec.RKEConfig.MachinePools[0].CloudCredentialSecretName = "cattle-global-data:bobs"
	}
	brought := granted(t, "cattle-global-data:hers", "alice", two)
	for user, want := range map[string]map[string]string{
		"mover": {"cattle-global-data/hers": "alice"},
		"admin": {"cattle-global-data/hers": "alice", "cattle-global-data/bobs": "admin"},
	} {
		got := ask(t, user, nil, brought)
		if warned := strings.Contains(got.warned,
			"spec.rkeConfig.machinePools[0].cloudCredentialSecretName: mover may not get"); got.stored == nil ||
			warned != (user == "mover") {
			t.Fatalf("%s: %+v", user, got)
		}
		var grants []tenancy.Grant
		if err := json.Unmarshal([]byte(got.stored.Annotations[tenancy.GrantsAnnotation]), &grants); err != nil ||
			len(grants) != len(want) {
			t.Errorf("%s: the grants are %v, error %v", user, grants, err)
		}
		for secret, author := range tenancy.Grants(got.stored, key) {
			if want[secret.String()] != author.Username {
				t.Errorf("%s: Secret %s is granted to %s", user, secret, author.Username)
			}
		}
	}
}

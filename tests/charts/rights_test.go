package charts

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/drover-io/drover/pkg/testkit/rights"
)

// TestDrover_RolesMatchTheFile: the roles have exactly the rules of the generated file whose conditions hold.
func TestDrover_RolesMatchTheFile(t *testing.T) {
	content, err := os.ReadFile(filepath.Join("..", "..", rights.File))
	check(t, err)
	generated, err := rights.Parse(content)
	check(t, err)
	for name, tt := range map[string]struct {
		server, more map[string]any
		roles, holds []string
	}{
		"default values": {
			roles: []string{rights.Own, rights.System, rights.Core},
			holds: []string{rights.WhenDefinitions, rights.WhenAdmission},
		},
		"with a core of Cluster API in the cluster": {
			server: map[string]any{"capi": "external"}, roles: []string{rights.Own, rights.System},
			holds: []string{rights.WhenAdmission},
		},
		"with such a core, and definitions of the server": {
			server: map[string]any{"capi": "external", "crds": "install"},
			roles:  []string{rights.Own, rights.System}, holds: []string{rights.WhenDefinitions, rights.WhenAdmission},
		},
		"without admission": {
			more:  map[string]any{"admission": map[string]any{"enabled": false}},
			roles: []string{rights.Own, rights.System, rights.Core}, holds: []string{rights.WhenDefinitions},
		},
		"for another management cluster": {server: map[string]any{"capi": "external",
			"kubeconfig": map[string]any{"secretName": "other"}}},
		"without roles": {more: map[string]any{"rbac": map[string]any{"create": false}}},
	} {
		t.Run(name, func(t *testing.T) {
			values := map[string]any{"server": map[string]any{"url": "https://drover.example.com"}}
			maps.Copy(values["server"].(map[string]any), tt.server)
			maps.Copy(values, tt.more)
			objects, err := Objects(droverChart, Release{}, values)
			check(t, err)
			got, err := rights.Grants(objects)
			check(t, err)
			want := rights.Rules{}
			for _, role := range tt.roles {
				want[role] = slices.DeleteFunc(slices.Clone(generated[role]), func(r rights.Rule) bool {
					return r.When != "" && !slices.Contains(tt.holds, r.When)
				})
			}
			if diff := cmp.Diff(lines(want.Grants()), lines(got)); diff != "" {
				t.Errorf("the roles differ from the file (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDrover_RightsOnOtherProviders: the role of the embedded core aggregates the same roles as that of a separate
// core. The value adds one, for both.
func TestDrover_RightsOnOtherProviders(t *testing.T) {
	given := map[string]any{"extraProviders": []any{
		map[string]any{"apiGroup": "infrastructure.cluster.x-k8s.io"},
		map[string]any{"apiGroup": "metal.example.com", "resources": []any{"metalmachines"}},
	}}
	const aggregated = "drover-cluster-api-aggregated"
	for capi, own := range map[string]bool{"embedded": true, "external": false} {
		t.Run(capi, func(t *testing.T) {
			objects, err := Objects(droverChart, Release{}, map[string]any{"rbac": given,
				"server": map[string]any{"url": "https://drover.example.com", "capi": capi}})
			check(t, err)
			aggregates, bound := false, false
			var got []string
			for _, object := range objects {
				switch known := typed(t, object).(type) {
				case *rbacv1.ClusterRole:
					aggregates = aggregates || known.Name == aggregated && forCores(known.AggregationRule)
					if known.Name == "drover-extra-providers" {
						got = forCore(t, known)
					}
				case *rbacv1.ClusterRoleBinding:
					bound = bound || known.RoleRef.Name == aggregated && known.Subjects[0].Name == "drover"
				}
			}
			if aggregates != own || bound != own {
				t.Errorf("the role aggregates: %t, and is bound: %t; want %t", aggregates, bound, own)
			}
			const verbs = "get list watch create update patch delete"
			want := []string{"infrastructure.cluster.x-k8s.io: *: " + verbs,
				"metal.example.com: metalmachines: " + verbs}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("rights on other providers (-want +got):\n%s", diff)
			}
		})
	}
}

// coreLabel selects the roles that the roles of Cluster API's cores aggregate.
const coreLabel = "cluster.x-k8s.io/aggregate-to-manager"

func forCores(rule *rbacv1.AggregationRule) bool {
	return rule != nil && len(rule.ClusterRoleSelectors) == 1 &&
		rule.ClusterRoleSelectors[0].MatchLabels[coreLabel] == "true"
}

// forCore returns the rules of a role that a core aggregates, as lines.
func forCore(t *testing.T, role *rbacv1.ClusterRole) []string {
	t.Helper()
	if role.Labels[coreLabel] != "true" {
		t.Errorf("role %s has labels %v", role.Name, role.Labels)
	}
	var lines []string
	for _, rule := range role.Rules {
		lines = append(lines, strings.Join([]string{strings.Join(rule.APIGroups, " "),
			strings.Join(rule.Resources, " "), strings.Join(rule.Verbs, " ")}, ": "))
	}
	return lines
}

// TestDrover_ViewersReadNoPasswords: machine configs, and the hosts and templates with the same content,
// contain passwords of clouds. Only users with the right to read Secrets may read them.
func TestDrover_ViewersReadNoPasswords(t *testing.T) {
	objects, err := Objects(droverChart, Release{}, map[string]any{
		"server": map[string]any{"url": "https://drover.example.com"},
		"rbac":   map[string]any{"aggregateToDefaultRoles": true},
	})
	check(t, err)
	const withheld = "rke-machine-config.cattle.io rke-machine.cattle.io"
	got := map[string][]string{}
	for _, object := range objects {
		if object.GetKind() != "ClusterRole" {
			continue
		}
		var role rbacv1.ClusterRole
		into(t, object, &role)
		for _, into := range []string{"view", "edit", "admin"} {
			for _, rule := range role.Rules {
				if role.Labels["rbac.authorization.k8s.io/aggregate-to-"+into] == "true" &&
					strings.Contains(withheld, rule.APIGroups[0]) {
					got[into] = append(got[into], rule.APIGroups[0]+": "+strings.Join(rule.Verbs, " "))
				}
			}
		}
	}
	want := []string{"rke-machine-config.cattle.io: get list watch create update patch delete",
		"rke-machine.cattle.io: get list watch"}
	if diff := cmp.Diff(map[string][]string{"edit": want, "admin": want}, got); diff != "" {
		t.Errorf("rights of tenants on objects with passwords (-want +got):\n%s", diff)
	}
}

// lines returns the permissions as lines with the suffix of the role's name in the chart.
func lines(grants []rights.Grant) []string {
	var out []string
	for _, grant := range grants {
		role := "own"
		if strings.HasSuffix(grant.Role, rights.Core) {
			role = "core"
		}
		out = append(out, role+": "+grant.Request.String())
	}
	slices.Sort(out)
	return out
}

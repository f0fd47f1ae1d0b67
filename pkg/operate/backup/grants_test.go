package backup

import (
	"strings"
	"testing"

	"github.com/drover-io/drover/pkg/decide/tenancy"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

func TestRestore_WarnsAboutGrants(t *testing.T) {
	const two = `[{"secret":"cattle-global-data/aws","author":{"username":"alice","groups":["team-a"]},"signature":"signed"},` +
		`{"secret":"clouds/vsphere","author":{"username":"bob"},"signature":"signed"}]`
	for name, c := range map[string]struct {
		grants, of, want string
	}{
		"grants of two users": {two, "ns/prod",
			"Cluster.provisioning.cattle.io ns/prod: it uses Secrets of other namespaces with the permissions of " +
				"users, which are not in a backup: cattle-global-data/aws (alice), clouds/vsphere (bob); "},
		"none":                          {"", "ns/prod", ""},
		"an empty list":                 {"[]", "ns/prod", ""},
		"a request for grants":          {tenancy.Renew, "ns/prod", ""},
		"a machine with the annotation": {two, "ns/m", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := ofProd()
			for _, object := range b.Objects {
				if c.grants != "" && object.GetNamespace()+"/"+object.GetName() == c.of {
					annotate(object, tenancy.GrantsAnnotation, c.grants)
				}
			}
			result, err := Restore(t.Context(), b, RestoreOptions{Client: client(t, memkube.New(memkube.Options{})),
				DryRun: true})
			check(t, err)
			if said := strings.Join(result.Warnings, "\n"); (said == "") != (c.want == "") ||
				!strings.HasPrefix(said, c.want) || strings.Contains(said, "signed") {
				t.Errorf("the warnings are %q", said)
			}
		})
	}
}

package supportbundle

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// About hides other clusters. The recipient of a bundle of one cluster may lack permission to know the others.
func TestAbout_LeavesOtherClustersOut(t *testing.T) {
	const text = `level=info msg="This replica leads"
level=info cluster=demo namespace=team-a machine=demo-servers-x msg="Plan delivered"
level=info cluster=demo-two namespace=team-a msg="Plan delivered"
level=info key=team-a/demo-two-servers-y msg="Handling failed"
level=info cluster=demo namespace=team-b msg="Plan delivered"
{"namespace":"team-b","msg":"a Secret is read"}
level=info key=team-a/demo msg="Handling failed"
drover_leader 1
`
	const want = `level=info msg="This replica leads"
level=info cluster=demo namespace=team-a machine=demo-servers-x msg="Plan delivered"
level=info key=team-a/demo msg="Handling failed"
drover_leader 1
# 4 lines about other clusters are left out
`
	chosen, others := []Cluster{{"team-a", "demo"}}, []Cluster{{"team-a", "demo-two"}, {"team-b", "demo"}}
	if diff := cmp.Diff(want, About(text, chosen, others)); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(text, About(text, append(chosen, others...), nil)); diff != "" {
		t.Errorf("of all clusters (-want +got):\n%s", diff)
	}
}

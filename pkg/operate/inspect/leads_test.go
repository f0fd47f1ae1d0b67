package inspect

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/rival"
	"github.com/drover-io/drover/pkg/operate/diagnose"
)

func TestLeads(t *testing.T) {
	held := func(holder string) *coordinationv1.Lease {
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
	}
	of := func(instance string) *coordinationv1.Lease { return held(rival.Holder("host", "replica", instance)) }
	for name, tc := range map[string]struct {
		lease *coordinationv1.Lease
		want  string
	}{
		"no server has led":      {nil, ""},
		"the lease was released": {held(""), ""},
		"an older Drover, without an instance": {
			held("host_0b5d9a3e-6c1f-4f0e-9b57-3f5f6b1c2d3e"), ""},
		"the instance of the cluster, which has published no settings": {of("mine"), "mine"},
		"an instance that has published its settings":                  {of("other"), "other"},
		"an unknown instance": {of("third"), "an instance with the digest " + rival.Digest("third")},
	} {
		w := &diagnose.World{
			Lease: tc.lease, Instances: []string{"other"},
			Cluster: &provv1.Cluster{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{rkev1.InstanceAnnotation: "mine"}}},
		}
		if got := leads(w); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

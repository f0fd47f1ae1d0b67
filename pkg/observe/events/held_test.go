package events

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

func TestHeldDeletion_NamesTheFinalizersOfOtherPrograms(t *testing.T) {
	const says = " Warning DeletionHeld The deletion waits for finalizers of other programs: example.com/guard " +
		"(another program, which has set it for example.com and must remove it: Drover never does)"
	live := metav1.ObjectMeta{Name: "demo", Finalizers: []string{"example.com/guard"}}
	deleted := *live.DeepCopy()
	deleted.DeletionTimestamp = new(metav1.NewTime(noon))
	known := *deleted.DeepCopy()
	known.Finalizers = append(known.Finalizers, "wrangler.cattle.io/mgmt-cluster-remove")
	for name, tc := range map[string]struct {
		before, after metav1.ObjectMeta
		want          []string
	}{
		"a live object":                       {live, live, nil},
		"a deletion begins":                   {live, deleted, []string{"Cluster demo" + says}},
		"Drover's finalizers hold it as well": {live, known, nil},
		"Drover has removed its finalizers":   {known, deleted, []string{"Cluster demo" + says}},
		"it is still held":                    {deleted, deleted, nil},
		"no finalizer is left, it disappears": {deleted,
			metav1.ObjectMeta{DeletionTimestamp: deleted.DeletionTimestamp}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := mgmtv3.Cluster{ObjectMeta: tc.before}, mgmtv3.Cluster{ObjectMeta: tc.after}
			expect(t, ManagementChanged(&before, &after), tc.want...)
		})
	}
	before, after := rkev1.CustomMachine{ObjectMeta: known}, rkev1.CustomMachine{ObjectMeta: deleted}
	expect(t, CustomMachineChanged(&provv1.Cluster{}, &before, &after), "CustomMachine demo"+says)
	was, is := provv1.Cluster{ObjectMeta: known}, provv1.Cluster{ObjectMeta: deleted}
	expect(t, ClusterChanged(&was, &is), "Cluster demo"+says)
}

package machineprovision

import (
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rancher/wrangler/v3/pkg/generic/fake"
	"go.uber.org/mock/gomock"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-io/drover/pkg/disruption"
	"github.com/drover-io/drover/pkg/machinejob"
	"github.com/drover-io/drover/pkg/metrics"
	"github.com/drover-io/drover/pkg/testkit/disruptions"
)

// A Machine that is replaced is counted once, however long the cache shows it as if nothing had happened, and not before it is deleted.
func TestAct_AReplacedMachineIsCountedOnce(t *testing.T) {
	now := metav1.Now()
	for name, tc := range map[string]struct {
		// seen are the UIDs of the Machine in the cache, one in each pass; failing are the passes whose delete fails.
		seen     []types.UID
		failing  map[int]bool
		deleting bool
		want     int
	}{
		"one pass":                                 {seen: []types.UID{"a"}, want: 1},
		"the cache is behind":                      {seen: []types.UID{"a", "a", "a"}, want: 1},
		"the delete failed first":                  {seen: []types.UID{"a", "a"}, failing: map[int]bool{0: true}, want: 1},
		"the delete fails":                         {seen: []types.UID{"a"}, failing: map[int]bool{0: true}, want: 0},
		"another Machine of the same name":         {seen: []types.UID{"a", "b"}, want: 2},
		"somebody else has begun with its removal": {seen: []types.UID{"a"}, deleting: true, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			counter, err := metrics.NewDisruptions(registry)
			if err != nil {
				t.Fatal(err)
			}
			ctrl, pass := gomock.NewController(t), 0
			cache := fake.NewMockCacheInterface[*clusterv1.Machine](ctrl)
			cache.EXPECT().Get("ns", "m1").DoAndReturn(func(string, string) (*clusterv1.Machine, error) {
				machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m1", UID: tc.seen[pass]}}
				if tc.deleting {
					machine.DeletionTimestamp = &now
				}
				return machine, nil
			}).AnyTimes()
			machines := fake.NewMockControllerInterface[*clusterv1.Machine, *clusterv1.MachineList](ctrl)
			machines.EXPECT().Delete("ns", "m1", gomock.Any()).DoAndReturn(func(string, string, *metav1.DeleteOptions) error {
				if tc.failing[pass] {
					return errors.New("timeout")
				}
				return nil
			}).Times(len(tc.seen))
			h := (&server{}).handler(t)
			h.machines, h.Machines, h.Disruptions = cache, machines, counter
			for pass = range tc.seen {
				_, err := h.act(guarded(), machinejob.Decision{Actions: []machinejob.Action{{Kind: machinejob.ActionReplace, Name: "m1"}}})
				if (err != nil) != tc.failing[pass] {
					t.Errorf("pass %d: error %v", pass, err)
				}
			}
			counts, err := disruptions.Gathered(registry)
			if err != nil {
				t.Fatal(err)
			}
			if got := counts[disruption.HealthMachineFailed]; got != tc.want {
				t.Errorf("counted %d times, want %d", got, tc.want)
			}
		})
	}
}

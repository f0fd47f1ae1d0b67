package machineprovision

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rancher/wrangler/v3/pkg/generic/fake"
	"go.uber.org/mock/gomock"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/disruption"
	"github.com/drover-io/drover/pkg/decide/machinejob"
	"github.com/drover-io/drover/pkg/observe/metrics"
	"github.com/drover-io/drover/pkg/testkit/disruptions"
)

// A replaced Machine is counted once, when it is deleted, however long the cache is behind.
func TestAct_CountsAReplacedMachineOnce(t *testing.T) {
	now := metav1.Now()
	for name, tc := range map[string]struct {
		// seen holds the UID of the cached Machine in each reconcile; failing holds the reconciles whose delete fails.
		seen     []types.UID
		failing  map[int]bool
		deleting bool
		want     int
	}{
		"one pass":                         {seen: []types.UID{"a"}, want: 1},
		"the cache is behind":              {seen: []types.UID{"a", "a", "a"}, want: 1},
		"the delete failed first":          {seen: []types.UID{"a", "a"}, failing: map[int]bool{0: true}, want: 1},
		"the delete fails":                 {seen: []types.UID{"a"}, failing: map[int]bool{0: true}, want: 0},
		"another Machine of the same name": {seen: []types.UID{"a", "b"}, want: 2},
		"another program has deleted it":   {seen: []types.UID{"a"}, deleting: true, want: 0},
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
				machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m1",
					UID: tc.seen[pass]}}
				if tc.deleting {
					machine.DeletionTimestamp = &now
				}
				return machine, nil
			}).AnyTimes()
			machines := fake.NewMockControllerInterface[*clusterv1.Machine, *clusterv1.MachineList](ctrl)
			machines.EXPECT().Delete("ns", "m1",
				gomock.Any()).DoAndReturn(func(string, string, *metav1.DeleteOptions) error {
				if tc.failing[pass] {
					return errors.New("timeout")
				}
				return nil
			}).Times(len(tc.seen))
			h := (&server{}).handler(t)
			h.machines, h.Machines, h.Disruptions = cache, machines, counter
			for pass = range tc.seen {
				_, err := h.act(guarded(),
					machinejob.Decision{Actions: []machinejob.Action{{Kind: machinejob.ActionReplace, Name: "m1"}}})
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

// A machine that failed to be created, and is then found unhealthy by its pool's health check, counts as one
// replacement.
func TestAct_CountsAnUnhealthyReplacedMachineOnce(t *testing.T) {
	registry := prometheus.NewRegistry()
	counter, err := metrics.NewDisruptions(registry)
	if err != nil {
		t.Fatal(err)
	}
	ctrl := gomock.NewController(t)
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m1", UID: "a"}}
	conditions.SetMeta(&machine.Status.Conditions, conditions.Condition{Type: "HealthCheckSucceeded", Status: "False",
		Reason: "NodeStartupTimeout"}, 1, time.Now())
	cache := fake.NewMockCacheInterface[*clusterv1.Machine](ctrl)
	cache.EXPECT().Get("ns", "m1").Return(machine, nil).AnyTimes()
	machines := fake.NewMockControllerInterface[*clusterv1.Machine, *clusterv1.MachineList](ctrl)
	machines.EXPECT().Delete("ns", "m1", gomock.Any()).Return(nil)
	jobs := fake.NewMockControllerInterface[*batchv1.Job, *batchv1.JobList](ctrl)
	jobs.EXPECT().Create(gomock.Any()).Return(&batchv1.Job{}, nil)
	h := (&server{}).handler(t)
	h.machines, h.Machines, h.Jobs, h.Disruptions = cache, machines, jobs, counter
	obj := guarded()
	if err := h.replace(obj, "m1"); err != nil {
		t.Fatal(err)
	}
	now := metav1.Now()
	obj.SetDeletionTimestamp(&now)
	obj.SetUID("infra")
	obj.SetLabels(map[string]string{rkev1.CAPIMachineNameLabel: "m1"})
	if err := h.run(obj, &batchv1.Job{}); err != nil {
		t.Fatal(err)
	}
	counts, err := disruptions.Gathered(registry)
	if err != nil {
		t.Fatal(err)
	}
	if counts[disruption.HealthMachineFailed] != 1 || counts[disruption.HealthCheckFailed] != 0 {
		t.Errorf("counted %v", counts)
	}
}

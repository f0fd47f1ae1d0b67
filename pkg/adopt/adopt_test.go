package adopt

import (
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/inspect"
	"github.com/drover-io/drover/pkg/planner"
	"github.com/drover-io/drover/pkg/preview"
)

var noon = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

func machine(class planner.Class) inspect.AdoptedMachine {
	return inspect.AdoptedMachine{Machine: preview.Machine{Name: "m1", Pool: "p", Class: class}}
}

func TestCheck_RefusesWithAReason(t *testing.T) {
	for name, tc := range map[string]struct {
		adoption inspect.Adoption
		limits   Limits
		want     string // empty: nothing is in the way
	}{
		"released":                       {adoption: inspect.Adoption{Owner: inspect.OwnerReleased, Mark: "a"}},
		"released by another":            {adoption: inspect.Adoption{Owner: inspect.OwnerReleased, Mark: "a"}, limits: Limits{From: "b"}, want: `instance "a" has let go`},
		"unmarked":                       {adoption: inspect.Adoption{Owner: inspect.OwnerUnmarked}, want: "--from rancher"},
		"unmarked, and said so":          {adoption: inspect.Adoption{Owner: inspect.OwnerUnmarked}, limits: Limits{From: FromRancher}},
		"another Drover's":               {adoption: inspect.Adoption{Owner: inspect.OwnerOther, Mark: "a"}, limits: Limits{From: FromRancher}, want: "--from a"},
		"another Drover's, and said so":  {adoption: inspect.Adoption{Owner: inspect.OwnerOther, Mark: "a"}, limits: Limits{From: "a"}},
		"a problem":                      {adoption: inspect.Adoption{Problems: []string{"spec.x: wrong"}}, want: "spec.x: wrong"},
		"written to a moment ago":        {adoption: inspect.Adoption{Activity: written(time.Minute)}, want: "rancher wrote the RKEControlPlane 1m0s ago"},
		"written to long ago":            {adoption: inspect.Adoption{Activity: written(time.Hour)}},
		"ours, written to a moment ago":  {adoption: inspect.Adoption{Owner: inspect.OwnerSame, Activity: written(time.Minute)}},
		"a change in place":              {adoption: inspect.Adoption{Machines: []inspect.AdoptedMachine{machine(planner.ClassInPlace)}}},
		"a restart":                      {adoption: inspect.Adoption{Machines: []inspect.AdoptedMachine{machine(planner.ClassRestart)}}, want: "restarted: m1; --allow-restart"},
		"a restart that is allowed":      {adoption: inspect.Adoption{Machines: []inspect.AdoptedMachine{machine(planner.ClassRestart)}}, limits: Limits{AllowRestart: true}},
		"a replacement, restart allowed": {adoption: inspect.Adoption{Machines: []inspect.AdoptedMachine{machine(planner.ClassReplace)}}, limits: Limits{AllowRestart: true}, want: "m1; --allow-replace"},
		"a replacement that is allowed":  {adoption: inspect.Adoption{Machines: []inspect.AdoptedMachine{machine(planner.ClassReplace)}}, limits: Limits{AllowReplace: true}},
		"a machine more": {
			adoption: inspect.Adoption{Machines: []inspect.AdoptedMachine{{Machine: preview.Machine{Pool: "p", Class: planner.ClassAdd}}}}, want: "a new one of pool p; --allow-replace",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.limits.Now, tc.limits.Idle = noon, 5*time.Minute
			err := Check(tc.adoption, tc.limits)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("refused because of %v, want %q", err, tc.want)
			}
		})
	}
}

func written(ago time.Duration) *inspect.Activity {
	return &inspect.Activity{Writer: "rancher", What: "the RKEControlPlane", At: metav1.NewTime(noon.Add(-ago))}
}

func TestRival_IsRancherWhileItHoldsItsLease(t *testing.T) {
	for name, tc := range map[string]struct {
		owner   inspect.Ownership
		renewed time.Duration // ago; 0 for no lease
		holder  string
		want    bool
	}{
		"it runs":                     {owner: inspect.OwnerUnmarked, renewed: 5 * time.Second, holder: "rancher-1", want: true},
		"its lease ran out":           {owner: inspect.OwnerUnmarked, renewed: 2 * time.Minute, holder: "rancher-1"},
		"it gave the lease back":      {owner: inspect.OwnerUnmarked, renewed: 5 * time.Second},
		"it never ran here":           {owner: inspect.OwnerUnmarked},
		"it runs for others' cluster": {owner: inspect.OwnerReleased, renewed: 5 * time.Second, holder: "rancher-1"},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			if tc.renewed > 0 {
				renewed := metav1.NewMicroTime(noon.Add(-tc.renewed))
				lease := &coordinationv1.Lease{
					ObjectMeta: metav1.ObjectMeta{Namespace: rancherLeaseNamespace, Name: rancherLeaseName},
					Spec:       coordinationv1.LeaseSpec{HolderIdentity: &tc.holder, RenewTime: &renewed, LeaseDurationSeconds: ptr.To[int32](45)},
				}
				if err := client.Tracker().Add(lease); err != nil {
					t.Fatal(err)
				}
			}
			got, err := Rival(t.Context(), client, inspect.Adoption{Owner: tc.owner}, noon)
			if err != nil || (got != "") != tc.want || tc.want && !strings.Contains(got, tc.holder) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// What cannot be let go of is refused before anything is written: there are no clients here.
func TestRelease_Refuses(t *testing.T) {
	now := metav1.NewTime(noon)
	mark := map[string]string{rkev1.InstanceAnnotation: "mine"}
	for name, tc := range map[string]struct {
		cluster     provv1.Cluster
		hasChildren bool
		want        string
	}{
		"nobody's": {hasChildren: true, want: ErrNotMarked.Error()},
		"deleted":  {cluster: provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Annotations: mark, DeletionTimestamp: &now}}, hasChildren: true, want: "has to finish"},
		"too new":  {cluster: provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Annotations: mark}}, want: "take it again at once"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Release(nil, &tc.cluster, tc.hasChildren); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
	if _, err := Release(nil, &provv1.Cluster{}, true); !errors.Is(err, ErrNotMarked) {
		t.Error(err)
	}
}

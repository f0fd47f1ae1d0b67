package adopt

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/operate/inspect"
	"github.com/drover-io/drover/pkg/operate/preview"
)

var noon = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

func machine(class planner.Class) inspect.AdoptedMachine {
	return inspect.AdoptedMachine{Machine: preview.Machine{Name: "m1", Pool: "p", Class: class}}
}

func TestCheck_RefusesWithAReason(t *testing.T) {
	for name, tc := range map[string]struct {
		adoption inspect.Adoption
		limits   Limits
		want     string // empty: adoption is allowed
	}{
		"released": {adoption: inspect.Adoption{Owner: inspect.OwnerReleased, Mark: "a"}},
		"released by another": {adoption: inspect.Adoption{Owner: inspect.OwnerReleased, Mark: "a"},
			limits: Limits{From: "b"}, want: `another instance has released it, instance "a"`},
		"unmarked": {adoption: inspect.Adoption{Owner: inspect.OwnerUnmarked},
			want: "--from rancher"},
		"unmarked, and said so": {adoption: inspect.Adoption{Owner: inspect.OwnerUnmarked},
			limits: Limits{From: FromRancher}},
		"another Drover's": {adoption: inspect.Adoption{Owner: inspect.OwnerOther, Mark: "a"},
			limits: Limits{From: FromRancher}, want: "--from a"},
		"another Drover's, and said so": {adoption: inspect.Adoption{Owner: inspect.OwnerOther, Mark: "a"},
			limits: Limits{From: "a"}},
		"a problem": {adoption: inspect.Adoption{Problems: []string{"spec.x: wrong"}},
			want: "spec.x: wrong"},
		"written to a moment ago": {adoption: inspect.Adoption{Activity: written(time.Minute)},
			want: "rancher wrote the RKEControlPlane 1m0s ago"},
		"written to long ago": {adoption: inspect.Adoption{Activity: written(time.Hour)}},
		"ours, written to a moment ago": {adoption: inspect.Adoption{Owner: inspect.OwnerSame,
			Activity: written(time.Minute)}},
		"another Drover's, at work": {adoption: atWork(inspect.OwnerOther), limits: Limits{From: "a"},
			want: `instance "a" works on it: an operation runs: etcd restore; let that work finish. If that instance no longer runs, use --allow-under-way`},
		"another Drover's, gone at work": {adoption: atWork(inspect.OwnerOther),
			limits: Limits{From: "a", AllowUnderWay: true}},
		"a change in place": {
			adoption: inspect.Adoption{Machines: []inspect.AdoptedMachine{machine(planner.ClassInPlace)}}},
		"a restart": {
			adoption: inspect.Adoption{Machines: []inspect.AdoptedMachine{machine(planner.ClassRestart)}},
			want:     "restarted: m1; --allow-restart"},
		"a restart that is allowed": {
			adoption: inspect.Adoption{Machines: []inspect.AdoptedMachine{machine(planner.ClassRestart)}},
			limits:   Limits{AllowRestart: true}},
		"a replacement, restart allowed": {
			adoption: inspect.Adoption{Machines: []inspect.AdoptedMachine{machine(planner.ClassReplace)}},
			limits:   Limits{AllowRestart: true}, want: "m1; --allow-replace"},
		"a replacement that is allowed": {
			adoption: inspect.Adoption{Machines: []inspect.AdoptedMachine{machine(planner.ClassReplace)}},
			limits:   Limits{AllowReplace: true}},
		"a machine more": {
			adoption: inspect.Adoption{
				Machines: []inspect.AdoptedMachine{{Machine: preview.Machine{Pool: "p", Class: planner.ClassAdd}}}},
			want: "a new one of pool p; --allow-replace",
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

func atWork(owner inspect.Ownership) inspect.Adoption {
	return inspect.Adoption{Owner: owner, Mark: "a", UnderWay: []string{"an operation runs: etcd restore"}}
}

func written(ago time.Duration) *inspect.Activity {
	return &inspect.Activity{Writer: "rancher", What: "the RKEControlPlane", At: metav1.NewTime(noon.Add(-ago))}
}

// Release refuses before it writes anything. This test has no clients.
func TestRelease_Refuses(t *testing.T) {
	now := metav1.NewTime(noon)
	mark := map[string]string{rkev1.InstanceAnnotation: "mine"}
	for name, tc := range map[string]struct {
		cluster     provv1.Cluster
		hasChildren bool
		underWay    []string
		want        string
	}{
		"unmarked": {hasChildren: true, want: ErrNotMarked.Error()},
		"deleted": {cluster: provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Annotations: mark,
			DeletionTimestamp: &now}}, hasChildren: true, want: "has to finish"},
		"too new": {cluster: provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Annotations: mark}},
			want: "no Drover could adopt it"},
		"in a restore": {cluster: provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Annotations: mark}}, hasChildren: true,
			underWay: []string{"an etcd restore"}, want: "an etcd restore; let it finish"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Release(nil, &tc.cluster, tc.hasChildren, tc.underWay...); err == nil ||
				!strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
	if _, err := Release(nil, &provv1.Cluster{}, true); !errors.Is(err, ErrNotMarked) {
		t.Error(err)
	}
}

package rival

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
)

var noon = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

func lease(holder string, ago time.Duration) *coordinationv1.Lease {
	renewed := metav1.NewMicroTime(noon.Add(-ago))
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: LeaseNamespace, Name: LeaseName},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &renewed,
			LeaseDurationSeconds: ptr.To[int32](45)},
	}
}

func deployment(replicas *int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: DeploymentNamespace, Name: DeploymentName},
		Spec:       appsv1.DeploymentSpec{Replicas: replicas},
	}
}

func TestRancher_RunsWithReplicasOrALease(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		objects []runtime.Object
		want    string // empty: it does not run
	}{
		"Rancher was never installed": {},
		"its lease is held": {[]runtime.Object{lease("rancher-1", 5*time.Second)},
			"rancher-1 holds lease kube-system/cattle-controllers"},
		"its lease expired by this machine's clock only": {[]runtime.Object{lease("rancher-1", 50*time.Second)},
			"rancher-1 holds"},
		"its lease expired":     {[]runtime.Object{lease("rancher-1", 2*time.Minute)}, ""},
		"it released its lease": {[]runtime.Object{lease("", 5*time.Second)}, ""},
		"its lease was never renewed": {
			[]runtime.Object{&coordinationv1.Lease{ObjectMeta: lease("", 0).ObjectMeta}}, ""},
		"it restarts without a lease holder": {[]runtime.Object{deployment(ptr.To[int32](3)), lease("", 5*time.Second)},
			"Deployment cattle-system/rancher wants replicas"},
		"replicas is not set": {[]runtime.Object{deployment(nil)}, "wants replicas"},
		"it is scaled to 0": {[]runtime.Object{deployment(ptr.To[int32](0)),
			lease("rancher-1", 2*time.Minute)}, ""},
		"it was scaled to 0 recently": {[]runtime.Object{deployment(ptr.To[int32](0)),
			lease("rancher-1", 5*time.Second)}, "rancher-1 holds"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Rancher(t.Context(), fake.NewClientset(tc.objects...), noon)
			if err != nil || (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("%q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

// An unreadable sign is an error rather than an absent Rancher.
func TestRancher_UnreadableIsAnError(t *testing.T) {
	t.Parallel()
	for _, resource := range []string{"deployments", "leases"} {
		client := fake.NewClientset()
		client.PrependReactor("get", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("forbidden")
		})
		if got, err := Rancher(context.Background(), client, noon); err == nil {
			t.Errorf("%s: %q", resource, got)
		}
	}
}

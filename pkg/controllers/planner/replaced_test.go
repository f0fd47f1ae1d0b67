package planner

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

func storing(credential string) *rkev1.ETCD {
	return &rkev1.ETCD{S3: &rkev1.ETCDSnapshotS3{CloudCredentialName: credential}}
}

// Nothing is decided while the control plane still has a reference that the Cluster has dropped, because the grant
// ended with it and rendering has not failed.
func TestGather_WaitsForReplacedReferences(t *testing.T) {
	f := newFakes(t)
	f.secrets = []*corev1.Secret{{ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-global-data", Name: "former"}}}
	f.cp.Spec.ETCD = storing("cattle-global-data:former")
	v, err := newHandler(f.deps).gather(f.cp)
	if err != nil || !v.unknown || len(v.snapshot.Objects) > 0 {
		t.Errorf("decision: %t, objects %v, error %v", !v.unknown, v.snapshot.Objects, err)
	}
	ref := render.StorageReferences("ns", f.cp.Spec.ETCD.S3)[0]
	for credential, want := range map[string]bool{"cattle-global-data:former": false, "cattle-global-data:next": true} {
		cluster := &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo"},
			Spec: provv1.ClusterSpec{RKEConfig: &provv1.RKEConfig{}}}
		cluster.Spec.RKEConfig.ETCD = storing(credential)
		if got := replaced(f.cp, cluster, ref); got != want {
			t.Errorf("the cluster refers to %s: replaced %t", credential, got)
		}
	}
}

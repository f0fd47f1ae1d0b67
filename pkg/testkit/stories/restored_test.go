package stories

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
	"github.com/drover-io/drover/pkg/testkit/packed"
)

const olderVersion = "v1.35.1+k3s1"

// goesBack requests a restore with the configuration of a snapshot of an older version.
func goesBack(s *story) {
	s.t.Helper()
	s.add(&rkev1.ETCDSnapshot{
		TypeMeta:   metav1.TypeMeta{APIVersion: "rke.cattle.io/v1", Kind: "ETCDSnapshot"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "before-upgrade"},
		Spec:       rkev1.ETCDSnapshotSpec{ClusterName: "demo"},
		SnapshotFile: rkev1.ETCDSnapshotFile{Metadata: packed.Metadata(
			`{"kubernetesVersion":"` + olderVersion + `","rkeConfig":{"additionalManifest":"kind: A\n"}}`)},
	})
	s.edit(func(c *provv1.Cluster) {
		c.Spec.RKEConfig.ETCDSnapshotRestore = &rkev1.ETCDSnapshotRestore{Name: "before-upgrade", Generation: 1,
			RestoreRKEConfig: rkev1.RestoreModeAll}
	})
	s.settle()
}

func (s *story) plane() *rkev1.RKEControlPlane {
	s.t.Helper()
	found := &rkev1.RKEControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo"}}
	if exists, err := s.api.Get(found); err != nil || !exists {
		s.t.Fatalf("there is no control plane: %v", err)
	}
	return found
}

// TestCluster_ARestoreIsKilledAfterEveryWrite: wherever the process is killed, the Cluster and the control plane get
// the configuration of the snapshot. No control plane ever has the request without it.
func TestCluster_ARestoreIsKilledAfterEveryWrite(t *testing.T) {
	crashpoints.SkipRaced(t)
	retell(t, 6, settled, func(s *story) {
		goesBack(s)
		plane, cluster := s.plane(), s.read()
		if plane.Spec.ETCDSnapshotRestore == nil || plane.Spec.KubernetesVersion != olderVersion ||
			plane.Spec.AdditionalManifest != "kind: A\n" {
			s.t.Errorf("the control plane is %+v", plane.Spec)
		}
		if cluster.Spec.KubernetesVersion != olderVersion || cluster.Spec.RKEConfig.AdditionalManifest != "kind: A\n" ||
			len(cluster.Spec.RKEConfig.MachinePools) != 2 {
			s.t.Errorf("the Cluster is %+v", cluster.Spec)
		}
		// Both came in one write: a later one would have another generation.
		if plane.Generation != 2 {
			s.t.Errorf("the control plane was written %d times", plane.Generation-1)
		}
	})
}

// TestCluster_ARestoreDoesNotCompeteWithTools: what a tool sets back after the request was passed on stays.
func TestCluster_ARestoreDoesNotCompeteWithTools(t *testing.T) {
	tell(t, func(s *story) {
		settled(s)
		goesBack(s)
		s.edit(func(c *provv1.Cluster) { c.Spec.KubernetesVersion = "v1.36.2+k3s1" })
		s.settle()
		if got := s.read().Spec.KubernetesVersion; got != "v1.36.2+k3s1" {
			s.t.Errorf("the tool is overruled: %s", got)
		}
		if got := s.plane().Spec.KubernetesVersion; got != "v1.36.2+k3s1" {
			s.t.Errorf("the control plane has %s", got)
		}
	})
}

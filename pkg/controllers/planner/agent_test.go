package planner

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// The manifest of an earlier cluster with the same name is ignored, and that of a moved Cluster counts, because tools
// that move objects rewrite owner references.
func TestGatherAgent_OnlyOfTheCluster(t *testing.T) {
	owner := func(apiVersion string, uid types.UID) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: "Cluster", Name: "demo", UID: uid}}
	}
	const ours = "provisioning.cattle.io/v1"
	for name, tc := range map[string]struct {
		owners []metav1.OwnerReference
		want   bool
	}{
		"of the cluster":             {owner(ours, "present"), true},
		"of a former cluster":        {owner(ours, "former"), false},
		"without a Cluster as owner": {nil, true},
		"owned by the CAPI Cluster":  {owner("cluster.x-k8s.io/v1beta2", "other"), true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakes(t)
			f.provisioning.UID = "present"
			f.secrets = append(f.secrets, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "ns", Name: "demo-cluster-agent", OwnerReferences: tc.owners,
					Annotations: map[string]string{rkev1.ReachedByAgentAnnotation: "true"},
				},
				Type: rkev1.SecretTypeClusterAgent,
				Data: map[string][]byte{rkev1.ClusterAgentManifestKey: []byte("manifest")},
			})
			f.deps.ClusterAgents = func() bool { return true }
			v := &view{}
			if err := newHandler(f.deps).gatherAgent(f.cp, v); err != nil {
				t.Fatal(err)
			}
			if got := v.snapshot.ClusterAgent; got.OnlyWay != tc.want ||
				strings.Contains(got.Manifest, "manifest") != tc.want || v.snapshot.AwaitsAgent == tc.want {
				t.Errorf("agent %+v, awaited: %v", got, v.snapshot.AwaitsAgent)
			}
		})
	}
}

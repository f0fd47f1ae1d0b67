package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// TestLook counts the nodes of a cluster, and reads its version.
func TestLook(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		version string
		arches  []string
		want    survey
	}{
		"no nodes": {version: "v1.36.2+k3s1",
			want: survey{version: mgmtv3.ClusterVersion{GitVersion: "v1.36.2+k3s1"}}},
		"one architecture": {version: "v1.36.2+rke2r1", arches: []string{"arm64", "arm64"},
			want: survey{nodes: 2, arch: "arm64", version: mgmtv3.ClusterVersion{GitVersion: "v1.36.2+rke2r1"}}},
		"two architectures": {version: "v1.36.2", arches: []string{"arm64", "amd64", "arm64"},
			want: survey{nodes: 3, arch: "mixed", version: mgmtv3.ClusterVersion{GitVersion: "v1.36.2"}}},
		"texts that no cluster should report": {version: "v1 <script>", arches: []string{strings.Repeat("x", 99), ""},
			want: survey{nodes: 2}},
		"many nodes": {version: "v1.36.2", arches: strings.Fields(strings.Repeat("amd64 ", nodesPage+1)),
			want: survey{nodes: nodesPage + 1, arch: "amd64", version: mgmtv3.ClusterVersion{GitVersion: "v1.36.2"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := memkube.New(memkube.Options{Version: tc.version})
			for i, arch := range tc.arches {
				node := &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
					ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i),
						Labels: map[string]string{corev1.LabelArchStable: arch}}}
				if err := server.Add(node); err != nil {
					t.Fatal(err)
				}
			}
			client, err := kubernetes.NewForConfig(server.Config("drover"))
			if err != nil {
				t.Fatal(err)
			}
			got, err := look(t.Context(), client.CoreV1().RESTClient())
			if err != nil {
				t.Fatal(err)
			}
			got.version.Major, got.version.Minor = "", ""
			if diff := cmp.Diff(tc.want, *got, cmp.AllowUnexported(survey{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			server.Intercept(func(memkube.Request) error { return apierrors.NewUnauthorized("no") })
			if _, err := look(t.Context(), client.CoreV1().RESTClient()); err == nil {
				t.Error("a refused request counts no nodes without an error")
			}
		})
	}
}

// TestSurveyed: the status shows the last survey, also while there is none, and never that of another cluster.
func TestSurveyed(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	found := &survey{nodes: 3, arch: "arm64", version: mgmtv3.ClusterVersion{GitVersion: "v1.36.2+k3s1", Major: "1"}}
	facts := &Facts{cluster: &provv1.Cluster{}, management: &mgmtv3.Cluster{}, survey: found, now: now,
		link: link{agent: true, connected: true}}
	status := facts.managementStatus(false)
	want := mgmtv3.ClusterInfo{MachineProvider: "imported", KubernetesVersion: "v1.36.2+k3s1", NodeCount: 3,
		Arch: "arm64", ProvisioningClusterRef: status.Info.ProvisioningClusterRef}
	if diff := cmp.Diff(want, status.Info); diff != "" || status.NodeCount != 3 || status.Provider != "k3s" ||
		status.Version != found.version {
		t.Errorf("status with %d nodes, version %v and provider %q (-want +got):\n%s", status.NodeCount, status.Version,
			status.Provider, diff)
	}
	facts.management.Status, facts.survey, facts.link = status, nil, link{agent: true, lost: true}
	if diff := cmp.Diff(want, facts.managementStatus(false).Info); diff != "" {
		t.Errorf("while it is disconnected (-want +got):\n%s", diff)
	}
	facts.cluster.Spec.RKEConfig, facts.survey = &provv1.RKEConfig{}, found
	facts.management.Status = mgmtv3.ClusterStatus{}
	if info := facts.managementStatus(false).Info; info.NodeCount != 0 || info.KubernetesVersion != "" {
		t.Errorf("a cluster with Machines has the survey %v", info)
	}
}

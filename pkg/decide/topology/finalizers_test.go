package topology_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/pkg/decide/topology"
)

func TestFormerFinalizers(t *testing.T) {
	const all = "wrangler.cattle.io/cloud-config-secret-remover auth.cattle.io/capi-resources-cleanup " +
		"wrangler.cattle.io/mgmt-cluster-remove controller.cattle.io/cluster-agent-controller-cleanup " +
		"controller.cattle.io/cluster-provisioner-controller controller.cattle.io/cluster-scoped-gc " +
		"controller.cattle.io/mgmt-cluster-rbac-remove controller.cattle.io/namespace-auth " +
		"wrangler.cattle.io/unmanaged-machine " +
		// of Drover, of Cluster API, and of other programs
		"wrangler.cattle.io/rke-cluster-remove wrangler.cattle.io/machine-provision-remove " +
		"machine.cluster.x-k8s.io wrangler.cattle.io/another foregroundDeletion example.com/guard"
	for kind, want := range map[schema.GroupKind]string{
		{Group: "provisioning.cattle.io", Kind: "Cluster"}: "wrangler.cattle.io/cloud-config-secret-remover " +
			"auth.cattle.io/capi-resources-cleanup",
		{Group: "management.cattle.io", Kind: "Cluster"}: "wrangler.cattle.io/mgmt-cluster-remove " +
			"controller.cattle.io/cluster-agent-controller-cleanup " +
			"controller.cattle.io/cluster-provisioner-controller controller.cattle.io/cluster-scoped-gc " +
			"controller.cattle.io/mgmt-cluster-rbac-remove",
		{Kind: "Namespace"}:                                "controller.cattle.io/namespace-auth",
		{Group: "rke.cattle.io", Kind: "CustomMachine"}:    "wrangler.cattle.io/unmanaged-machine",
		{Group: "cluster.x-k8s.io", Kind: "Cluster"}:       "",
		{Group: "rke.cattle.io", Kind: "RKEControlPlane"}:  "",
		{Group: "rke-machine.cattle.io", Kind: "AMachine"}: "",
	} {
		t.Run(kind.String(), func(t *testing.T) {
			object := &metav1.ObjectMeta{Finalizers: strings.Fields(all)}
			got := topology.FormerFinalizers(kind, object)
			if diff := cmp.Diff(strings.Fields(want), got, cmp.Transformer("none", func(s []string) string {
				return strings.Join(s, " ")
			})); diff != "" {
				t.Errorf("finalizers (-want +got):\n%s", diff)
			}
			for _, finalizer := range got {
				if remover, known := topology.FinalizerRemover(finalizer); !known {
					t.Errorf("%s is removed by %s", finalizer, remover)
				}
			}
		})
	}
}

func TestFinalizerRemover(t *testing.T) {
	for finalizer, want := range map[string]string{
		"wrangler.cattle.io/rke-cluster-remove":       "Drover (provisioningcluster)",
		"wrangler.cattle.io/mgmt-cluster-remove":      "Drover (provisioningcluster)",
		"controller.cattle.io/namespace-auth":         "Drover (provisioningcluster)",
		"wrangler.cattle.io/unmanaged-machine":        "Drover (unmanaged)",
		"wrangler.cattle.io/machine-provision-remove": "Drover (machineprovision)",
		"machine.cluster.x-k8s.io":                    "Cluster API's core",
		"foregroundDeletion":                          "Kubernetes",
		"example.com/guard":                           "another program, which has set it for example.com",
		"guard":                                       "another program, which has set it for guard",
	} {
		got, known := topology.FinalizerRemover(finalizer)
		if !strings.HasPrefix(got, want) || known == strings.HasPrefix(got, "another") {
			t.Errorf("%s: %q, known %v, want %q", finalizer, got, known, want)
		}
	}
}

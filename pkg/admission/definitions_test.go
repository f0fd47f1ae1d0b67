package admission_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/drover-io/drover/pkg/admission"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/testkit/build"
)

// Definitions of protected clusters are kept, because the API server deletes their objects without asking admission.
func TestDecide_KeepsDefinitionsOfProtectedClusters(t *testing.T) {
	t.Parallel()
	guarded := func(c *provv1.Cluster) { c.Annotations[rkev1.ProtectAnnotation] = "true" }
	named := func(name string) func(*provv1.Cluster) { return func(c *provv1.Cluster) { c.Name = name } }
	foreign := func(c *provv1.Cluster) { c.Annotations[rkev1.InstanceAnnotation] = "another" }
	ofPods := func(c *provv1.Cluster) {
		pool(c, 0).NodeConfig = &corev1.ObjectReference{Kind: "PodConfig", Name: "all"}
	}
	clusters := func(list ...*provv1.Cluster) []func(*admission.Facts) {
		return []func(*admission.Facts){ofClusters(list...)}
	}
	for name, tc := range map[string]struct {
		group, kind string
		facts       []func(*admission.Facts)
		want        string
	}{
		"of Machines": {"cluster.x-k8s.io", "Machine", clusters(demo(guarded)),
			"the deletion also deletes all objects of kind Machine, and protected Cluster fleet-default/demo needs " +
				"them: " +
				"remove annotation drover.io/protect from that Cluster first"},
		"of Clusters": {"provisioning.cattle.io", "Cluster", clusters(demo(guarded)),
			"fleet-default/demo"},
		"of control planes": {"rke.cattle.io", "RKEControlPlane", clusters(demo(guarded)),
			"fleet-default/demo"},
		"of drivers": {"management.cattle.io", "NodeDriver", clusters(demo(guarded)),
			"fleet-default/demo"},
		"of Rancher's kinds in the same group": {"management.cattle.io", "Token", clusters(demo(guarded)), ""},
		"one of several is named": {"cluster.x-k8s.io", "Machine",
			clusters(demo(guarded, named("z")), demo(guarded), demo(named("a"))), "fleet-default/demo"},
		"of another manager": {"cluster.x-k8s.io", "Machine", clusters(demo(guarded, foreign)),
			"fleet-default/demo"},
		"no Cluster is protected":  {"cluster.x-k8s.io", "Machine", clusters(demo()), ""},
		"the Clusters are unknown": {"cluster.x-k8s.io", "Machine", nil, ""},
		"of another group":         {"cert-manager.io", "Certificate", clusters(demo(guarded)), ""},
		"of the hosts of its pools": {"rke-machine.cattle.io", "SimMachine", clusters(demo(guarded)),
			"fleet-default/demo"},
		"of the templates of its pools": {"rke-machine.cattle.io", "SimMachineTemplate",
			clusters(demo(guarded)), "fleet-default/demo"},
		"of the configs of its pools": {"rke-machine-config.cattle.io", "SimConfig",
			clusters(demo(guarded)), "fleet-default/demo"},
		"of a driver without machines of the cluster": {"rke-machine.cattle.io", "PodMachine", clusters(demo(guarded)),
			""},
		"of a driver with remaining machines of the cluster": {"rke-machine.cattle.io", "SimMachine",
			append(clusters(demo(guarded, ofPods)), machines(build.Machine("demo", "a", "w"))), "fleet-default/demo"},
		"of a driver with machines of other clusters": {"rke-machine.cattle.io", "SimMachine",
			append(clusters(demo(guarded, ofPods)), machines(build.Machine("other", "a", "w"))), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			definition := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: tc.group, Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: tc.kind},
			}}
			a := decide(t, request(t, "apiextensions.k8s.io", "customresourcedefinitions", facts(t, tc.facts...),
				definition, nil))
			if a.Allowed() != (tc.want == "") || !strings.Contains(a.Forbidden, tc.want) {
				t.Errorf("answer %+v", a)
			}
		})
	}
}

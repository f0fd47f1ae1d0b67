package edit_test

import (
	"testing"

	"sigs.k8s.io/yaml"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/operate/edit"
	"github.com/drover-io/drover/pkg/testkit/build"
	"github.com/drover-io/drover/pkg/testkit/golden"
)

func inPool(m *clusterv1.Machine, pool string) *clusterv1.Machine {
	m.Labels[rkev1.MachinePoolNameLabel] = pool
	return m
}

func host(name, clean string) *clusterv1.Machine {
	m := build.Machine("demo", name, "ecw")
	m.Spec.InfrastructureRef.Kind = "CustomMachine"
	if clean != "" {
		m.Annotations = map[string]string{rkev1.CleanHostAnnotation: clean}
	}
	return m
}

func managed(change func(c *provv1.Cluster)) *provv1.Cluster {
	c := demo()
	c.Annotations = map[string]string{rkev1.InstanceAnnotation: "drover"}
	c.Status.ClusterName = "c-m-1"
	c.Finalizers = []string{provv1.RKEClusterFinalizer}
	change(c)
	return c
}

func TestRemovalOf(t *testing.T) {
	hooked := inPool(build.Machine("demo", "demo-workers-a", "w"), "workers")
	hooked.Annotations = map[string]string{rkev1.PreTerminateAnnotation: "x",
		clusterv1.PreDrainDeleteHookAnnotationPrefix + "/guard": "x"}
	hooked.Finalizers = []string{clusterv1.MachineFinalizer, "example.com/inventory"}
	for name, b := range map[string]edit.Belongings{
		"pools": {
			Cluster: managed(func(c *provv1.Cluster) {
				c.Spec.CloudCredentialSecretName = "cattle-global-data:cc-aws01"
			}),
			Machines: []*clusterv1.Machine{
				inPool(build.Machine("demo", "demo-workers-a", "w"), "workers"),
				inPool(build.Machine("demo", "demo-servers-b", "ec"), "servers"),
				inPool(build.Machine("demo", "demo-servers-a", "ec"), "servers")}, Local: 3, Remote: 2},
		"existing hosts": {Cluster: managed(func(*provv1.Cluster) {}), Local: 1,
			Machines: []*clusterv1.Machine{host("host-b", ""), host("host-a", "true")}},
		"existing hosts that are cleaned": {
			Cluster:  managed(func(c *provv1.Cluster) { c.Annotations[rkev1.CleanHostAnnotation] = "true" }),
			Machines: []*clusterv1.Machine{host("host-a", ""), host("host-b", "false")}},
		"what holds the deletion": {Machines: []*clusterv1.Machine{hooked},
			Cluster: managed(func(c *provv1.Cluster) {
				delete(c.Annotations, rkev1.InstanceAnnotation)
				c.Finalizers = append(c.Finalizers, "example.com/guard")
			})},
		"a protected cluster": {Cluster: managed(func(c *provv1.Cluster) {
			c.Annotations[rkev1.ProtectAnnotation] = "true"
		})},
		"a deletion that has begun": {Notes: []string{"machines are unknown: forbidden"},
			Cluster: managed(func(c *provv1.Cluster) { c.DeletionTimestamp = &metav1.Time{} })},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := yaml.Marshal(edit.RemovalOf(b))
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, "testdata/removal/"+name+".yaml", string(got))
		})
	}
}

package topology

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// TestWithoutEffect checks that exactly the fields without effect are reported.
func TestWithoutEffect(t *testing.T) {
	own := &corev1.ObjectReference{Kind: "PodConfig", Name: "a"}
	foreign := &corev1.ObjectReference{APIVersion: "infrastructure.cluster.x-k8s.io/v1beta2",
		Kind: "AWSMachineTemplate", Name: "a"}
	data := &rkev1.UserdataSpec{InlineUserdata: "#cloud-config\n"}
	pool := func(c *provv1.Cluster, edit func(*provv1.RKEMachinePool)) {
		p := provv1.RKEMachinePool{Name: "p", NodeConfig: own.DeepCopy()}
		edit(&p)
		c.Spec.RKEConfig.MachinePools = []provv1.RKEMachinePool{p}
	}
	for name, tc := range map[string]struct {
		edit func(*provv1.Cluster)
		want []string
	}{
		"nothing": {func(c *provv1.Cluster) { pool(c, func(*provv1.RKEMachinePool) {}) }, nil},
		"reinstallation of the agents": {
			func(c *provv1.Cluster) { c.Spec.RedeploySystemAgentGeneration = 2 }, nil,
		},
		"templates of pod security": {
			func(c *provv1.Cluster) {
				c.Spec.DefaultPodSecurityAdmissionConfigurationTemplateName = "restricted"
				c.Spec.DefaultPodSecurityPolicyTemplateName = "old"
			},
			[]string{"spec.defaultPodSecurityPolicyTemplateName"},
		},
		"a template for pod security, and a file of the user": {
			func(c *provv1.Cluster) {
				c.Spec.DefaultPodSecurityAdmissionConfigurationTemplateName = "restricted"
				c.Spec.RKEConfig.MachineGlobalConfig.Data = map[string]any{
					"kube-apiserver-arg": "admission-control-config-file=/etc/mine.yaml"}
			},
			[]string{"spec.defaultPodSecurityAdmissionConfigurationTemplateName"},
		},
		"a template for pod security of an imported cluster": {
			func(c *provv1.Cluster) {
				c.Spec.DefaultPodSecurityAdmissionConfigurationTemplateName = "restricted"
				c.Spec.RKEConfig = nil
			},
			[]string{"spec.defaultPodSecurityAdmissionConfigurationTemplateName"},
		},
		"isolation of projects": {
			func(c *provv1.Cluster) { c.Spec.EnableNetworkPolicy = new(true) }, []string{"spec.enableNetworkPolicy"},
		},
		"no isolation of projects": {
			func(c *provv1.Cluster) { c.Spec.EnableNetworkPolicy = new(false) }, nil,
		},
		"a role for members of projects": {
			func(c *provv1.Cluster) { c.Spec.DefaultClusterRoleForProjectMembers = "member" }, []string{
				"spec.defaultClusterRoleForProjectMembers"},
		},
		"annotations for other managers": {
			func(c *provv1.Cluster) {
				c.Annotations = map[string]string{
					"example.com/a": "true", rkev1.DeleteMissingCustomMachinesAfterAnnotation: "1 hour",
					provv1.EnableFleetSchedulingCustomizationAnnotation: "",
					provv1.HarvesterRemoveAllVolumesAnnotation:          "true",
				}
			},
			[]string{"metadata.annotations[rke.cattle.io/delete-missing-custom-machines-after]",
				"metadata.annotations[harvesterhci.io/removeAllPersistentVolumeClaims]"},
		},
		"a duration after which hosts are removed": {
			func(c *provv1.Cluster) {
				c.Annotations = map[string]string{rkev1.DeleteMissingCustomMachinesAfterAnnotation: "1h30m"}
			}, nil,
		},
		"a negative duration after which hosts are removed": {
			func(c *provv1.Cluster) {
				c.Annotations = map[string]string{rkev1.DeleteMissingCustomMachinesAfterAnnotation: "-1h"}
			}, []string{"metadata.annotations[rke.cattle.io/delete-missing-custom-machines-after]"},
		},
		"another name of a pool": {
			func(c *provv1.Cluster) { pool(c, func(p *provv1.RKEMachinePool) { p.DisplayName = "Pool" }) },
			[]string{"spec.rkeConfig.machinePools[0].displayName"},
		},
		"an existing Cluster API cluster": {
			func(c *provv1.Cluster) {
				c.Spec.ClusterAPIConfig = &provv1.ClusterAPIConfig{
					ClusterName: "capi"}
			}, []string{"spec.clusterAPIConfig"},
		},
		"ignored errors of drains": {
			func(c *provv1.Cluster) { c.Spec.RKEConfig.UpgradeStrategy.WorkerDrainOptions.IgnoreErrors = true }, nil,
		},
		"an admission webhook": {
			func(c *provv1.Cluster) {
				c.Spec.WebhookDeploymentCustomization = &provv1.WebhookDeploymentCustomization{}
			},
			[]string{"spec.webhookDeploymentCustomization"},
		},
		"user data of a node driver's machines": {
			func(c *provv1.Cluster) { pool(c, func(p *provv1.RKEMachinePool) { p.Userdata = data }) },
			[]string{"spec.rkeConfig.machinePools[0].userdata"},
		},
		"user data of another provider's machines": {
			func(c *provv1.Cluster) {
				pool(c, func(p *provv1.RKEMachinePool) { p.NodeConfig, p.Userdata = foreign.DeepCopy(), data })
			}, nil,
		},
		"a machine config of another namespace": {
			func(c *provv1.Cluster) {
				pool(c, func(p *provv1.RKEMachinePool) { p.NodeConfig.Namespace = "elsewhere" })
			},
			[]string{"spec.rkeConfig.machinePools[0].machineConfigRef.namespace"},
		},
		"the cluster's own namespace": {
			func(c *provv1.Cluster) {
				pool(c, func(p *provv1.RKEMachinePool) { p.NodeConfig.Namespace = "fleet-default" })
			}, nil,
		},
		"an imported cluster": {
			func(c *provv1.Cluster) { c.Spec.EnableNetworkPolicy, c.Spec.RKEConfig = new(true), nil }, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &provv1.Cluster{Spec: provv1.ClusterSpec{RKEConfig: &provv1.RKEConfig{}}}
			cluster.Namespace = "fleet-default"
			tc.edit(cluster)
			var got []string
			for _, ignored := range WithoutEffect(cluster) {
				got = append(got, ignored.Field)
				if ignored.Message == "" {
					t.Errorf("%s: the field must be reported", ignored.Field)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}

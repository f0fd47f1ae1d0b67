package topology_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// TestValidate_NamesFieldAndRemedy has one edit for each error. wantField is the field at the beginning of the message,
// and wantRemedy is part of its advice.
func TestValidate_NamesFieldAndRemedy(t *testing.T) {
	t.Parallel()
	const pools = "spec.rkeConfig.machinePools"
	cases := map[string]struct {
		edit       func(*provv1.Cluster)
		wantField  string
		wantRemedy string
	}{
		"name too long": {
			func(c *provv1.Cluster) { c.Name = strings.Repeat("n", 64) },
			"metadata.name", "at most 63 characters",
		},
		"name with a dot": {
			func(c *provv1.Cluster) { c.Name = "a.b" },
			"metadata.name", "lower case letters, digits and dashes",
		},
		"name of an imported cluster": {
			func(c *provv1.Cluster) { c.Name = "c-12345" },
			"metadata.name", "choose another name",
		},
		"no version": {
			func(c *provv1.Cluster) { c.Spec.KubernetesVersion = "" },
			"spec.kubernetesVersion", "kubernetesVersion not set on fleet-default/demo: set the full version",
		},
		"version without v": {
			func(c *provv1.Cluster) { c.Spec.KubernetesVersion = "1.36.2+k3s1" },
			"spec.kubernetesVersion", "for example v1.36.2+rke2r1",
		},
		"invalid version": {
			func(c *provv1.Cluster) { c.Spec.KubernetesVersion = "vlatest" },
			"spec.kubernetesVersion", "for example v1.36.2+rke2r1",
		},
		"version with two parts": {
			func(c *provv1.Cluster) { c.Spec.KubernetesVersion = "v1.36" },
			"spec.kubernetesVersion", "semantic version",
		},
		"pool without a role": {
			func(c *provv1.Cluster) {
				pool(c, 0).EtcdRole, pool(c, 0).ControlPlaneRole, pool(c, 0).WorkerRole = false, false, false
			},
			pools + "[0]", "set etcdRole, controlPlaneRole or workerRole to true",
		},
		"no etcd": {
			func(c *provv1.Cluster) { pool(c, 0).EtcdRole = false },
			pools, "set etcdRole to true for a pool with a quantity of at least 1",
		},
		"no control plane": {
			func(c *provv1.Cluster) { pool(c, 0).ControlPlaneRole = false },
			pools, "set controlPlaneRole to true for a pool with a quantity of at least 1",
		},
		"etcd scaled away": {
			func(c *provv1.Cluster) {
				worker := *pool(c, 0).DeepCopy()
				worker.Name, worker.EtcdRole = "other", false
				c.Spec.RKEConfig.MachinePools = append(c.Spec.RKEConfig.MachinePools, worker)
				pool(c, 0).Quantity = new(int32)
			},
			pools, "no pool has machines with etcd",
		},
		"pool without a name": {
			func(c *provv1.Cluster) { pool(c, 0).Name = "" },
			pools + "[0].name", "give every machine pool a name",
		},
		"pool with an invalid name": {
			func(c *provv1.Cluster) { pool(c, 0).Name = "Pool_1" },
			pools + "[0].name", "lower case letters",
		},
		"pool with a long name": {
			func(c *provv1.Cluster) { pool(c, 0).Name = strings.Repeat("p", 64) },
			pools + "[0].name", "at most 63 characters",
		},
		"two pools with one name": {
			func(c *provv1.Cluster) {
				c.Spec.RKEConfig.MachinePools = append(c.Spec.RKEConfig.MachinePools, *pool(c, 0).DeepCopy())
			},
			pools + "[1].name", "Duplicate value",
		},
		"no machine config": {
			func(c *provv1.Cluster) { pool(c, 0).NodeConfig = nil },
			pools + "[0].machineConfigRef", "set kind and name of a machine config",
		},
		"machine config without a name": {
			func(c *provv1.Cluster) { pool(c, 0).NodeConfig.Name = "" },
			pools + "[0].machineConfigRef", "missing name or valid config",
		},
		"machine config that does not exist": {
			func(c *provv1.Cluster) { pool(c, 0).NodeConfig.Name = "nc-other" },
			pools + "[0].machineConfigRef.name",
			"no PodConfig with this name in namespace fleet-default, which pool pool1 uses; create it",
		},
		"unknown driver": {
			func(c *provv1.Cluster) { pool(c, 0).NodeConfig.Kind = "CloudConfig" },
			pools + "[0].machineConfigRef.kind", "register or activate the NodeDriver",
		},
		"kind that is not a machine config": {
			func(c *provv1.Cluster) { pool(c, 0).NodeConfig.Kind = "PodMachine" },
			pools + "[0].machineConfigRef.kind", "for example Amazonec2Config",
		},
		"core group as provider": {
			func(c *provv1.Cluster) { pool(c, 0).NodeConfig.APIVersion = "v1" },
			pools + "[0].machineConfigRef.apiVersion", "must be rke-machine-config.cattle.io/v1",
		},
		"pool's credential missing": {
			func(c *provv1.Cluster) { pool(c, 0).CloudCredentialSecretName = "cattle-global-data:cc-lost" },
			pools + "[0].cloudCredentialSecretName",
			"no Secret cc-lost in namespace cattle-global-data, which pool pool1 uses; create it",
		},
		"cluster's credential missing": {
			func(c *provv1.Cluster) { c.Spec.CloudCredentialSecretName = "lost" },
			"spec.cloudCredentialSecretName", "no Secret lost in namespace fleet-default",
		},
		"credential in an invalid namespace": {
			func(c *provv1.Cluster) { c.Spec.CloudCredentialSecretName = "elsewhere:known" },
			"spec.cloudCredentialSecretName", "no Secret elsewhere:known in namespace fleet-default",
		},
		"reserved label": {
			func(c *provv1.Cluster) { pool(c, 0).Labels = map[string]string{"rke.cattle.io/etcd-role": "false"} },
			pools + "[0].labels[rke.cattle.io/etcd-role]", "remove it or choose another key",
		},
		"reserved label of the MachineDeployment": {
			func(c *provv1.Cluster) {
				pool(c, 0).MachineDeploymentLabels = map[string]string{"cluster.x-k8s.io/cluster-name": "other"}
			},
			pools + "[0].machineDeploymentLabels[cluster.x-k8s.io/cluster-name]", "Drover sets",
		},
		"label value too long": {
			func(c *provv1.Cluster) { pool(c, 0).Labels = map[string]string{"a": strings.Repeat("v", 64)} },
			pools + "[0].labels[a]", "label value",
		},
		"label key with a space": {
			func(c *provv1.Cluster) { pool(c, 0).Labels = map[string]string{"a b": "v"} },
			pools + "[0].labels[a b]", "label key",
		},
		"taint without a known effect": {
			func(c *provv1.Cluster) { pool(c, 0).Taints = []corev1.Taint{{Key: "a", Effect: "Sometimes"}} },
			pools + "[0].taints[0].effect", "NoSchedule",
		},
		"taint without a key": {
			func(c *provv1.Cluster) { pool(c, 0).Taints = []corev1.Taint{{Effect: corev1.TaintEffectNoExecute}} },
			pools + "[0].taints[0].key", "label key",
		},
		"negative quantity": {
			func(c *provv1.Cluster) { pool(c, 0).Quantity = new(int32(-1)) },
			pools + "[0].quantity", "must not be negative",
		},
		"autoscaler with one limit": {
			func(c *provv1.Cluster) { pool(c, 0).AutoscalingMaxSize = new(int32(3)) },
			pools + "[0].autoscalingMinSize", "must both be set",
		},
		"autoscaler with swapped limits": {
			func(c *provv1.Cluster) {
				pool(c, 0).AutoscalingMinSize, pool(c, 0).AutoscalingMaxSize = new(int32(4)), new(int32(3))
			},
			pools + "[0].autoscalingMinSize", "not be greater than autoscalingMaxSize",
		},
		"autoscaler may remove all of etcd": {
			func(c *provv1.Cluster) {
				pool(c, 0).AutoscalingMinSize, pool(c, 0).AutoscalingMaxSize = new(int32(0)), new(int32(3))
			},
			pools + "[0].autoscalingMinSize", "must be greater than 0",
		},
		"surge that is not a number": {
			func(c *provv1.Cluster) {
				pool(c, 0).RollingUpdate = &provv1.RKEMachinePoolRollingUpdate{MaxSurge: new(intstr.FromString("many"))}
			},
			pools + "[0].rollingUpdate.maxSurge", "a percentage such as 25%",
		},
		"negative unavailability": {
			func(c *provv1.Cluster) {
				pool(c, 0).RollingUpdate = &provv1.RKEMachinePoolRollingUpdate{
					MaxUnavailable: new(intstr.FromInt32(-1))}
			},
			pools + "[0].rollingUpdate.maxUnavailable", "not negative",
		},
		"maxUnhealthy that is not a number": {
			func(c *provv1.Cluster) { pool(c, 0).MaxUnhealthy = new("half") },
			pools + "[0].maxUnhealthy", "a percentage such as 25%",
		},
		"invalid range": {
			func(c *provv1.Cluster) { pool(c, 0).UnhealthyRange = new("3-5") },
			pools + "[0].unhealthyRange", "[3-5]",
		},
		"reversed range": {
			func(c *provv1.Cluster) { pool(c, 0).UnhealthyRange = new("[5-3]") },
			pools + "[0].unhealthyRange", "the smaller number",
		},
		"range with numbers that are too large": {
			func(c *provv1.Cluster) { pool(c, 0).UnhealthyRange = new("[1-99999999999999999999]") },
			pools + "[0].unhealthyRange", "the smaller number",
		},
		"operating system with a space": {
			func(c *provv1.Cluster) { pool(c, 0).MachineOS = "my os" },
			pools + "[0].machineOS", "linux or windows",
		},
		"misspelled operating system": {
			func(c *provv1.Cluster) { pool(c, 0).MachineOS = "windos" },
			pools + "[0].machineOS", "linux or windows",
		},
		"unsupported operating system": {
			func(c *provv1.Cluster) { pool(c, 0).MachineOS = "windows" },
			pools + "[0].machineOS", "must be linux or absent",
		},
		"userdata that is not YAML": {
			func(c *provv1.Cluster) { withUserdata(c, "users:\n- a: [b") },
			pools + "[0].userdata.inlineUserdata", "see line 2",
		},
		"userdata whose commands are not a list": {
			func(c *provv1.Cluster) { withUserdata(c, "runcmd: reboot") },
			pools + "[0].userdata.inlineUserdata", "runcmd must be a list",
		},
		"userdata that are a script": {
			func(c *provv1.Cluster) { withUserdata(c, "#!/bin/sh\nreboot\n") },
			pools + "[0].userdata.inlineUserdata", "a YAML map, without a script",
		},
		"variable with a dash": {
			func(c *provv1.Cluster) { c.Spec.AgentEnvVars = []rkev1.EnvVar{{Name: "no-proxy", Value: "a"}} },
			"spec.agentEnvVars[0].name", "letters, digits and _, not starting with a digit",
		},
		"infrastructure without a group": {
			func(c *provv1.Cluster) {
				c.Spec.RKEConfig.InfrastructureRef = &corev1.ObjectReference{APIVersion: "v1", Kind: "AWSCluster",
					Name: "a"}
			},
			"spec.rkeConfig.infrastructureRef.apiVersion", "a group and a version",
		},
		"infrastructure without a name": {
			func(c *provv1.Cluster) {
				c.Spec.RKEConfig.InfrastructureRef = &corev1.ObjectReference{APIVersion: "a.b/v1", Kind: "AWSCluster"}
			},
			"spec.rkeConfig.infrastructureRef.name", "set the name",
		},
		"infrastructure without a kind": {
			func(c *provv1.Cluster) {
				c.Spec.RKEConfig.InfrastructureRef = &corev1.ObjectReference{APIVersion: "a.b/v1", Name: "a"}
			},
			"spec.rkeConfig.infrastructureRef.kind", "set the kind",
		},
		"agent directory as variable": {
			func(c *provv1.Cluster) {
				c.Spec.AgentEnvVars = []rkev1.EnvVar{{Name: "CATTLE_AGENT_VAR_DIR", Value: "/a"}}
			},
			"spec.agentEnvVars[0].name", "dataDirectories.systemAgent",
		},
		"NO_PROXY with a space": {
			func(c *provv1.Cluster) { c.Spec.AgentEnvVars = []rkev1.EnvVar{{Name: "no_proxy", Value: "a, b"}} },
			"spec.agentEnvVars[0].value", "without spaces",
		},
		"variable with its value": {
			func(c *provv1.Cluster) {
				c.Spec.AgentEnvVars = []rkev1.EnvVar{{Name: "HTTPS_PROXY=http://me:hunter2@proxy"}}
			},
			"spec.agentEnvVars[0].name", `"HTTPS_PROXY=***"`,
		},
		"variable without a name": {
			func(c *provv1.Cluster) { c.Spec.AgentEnvVars = []rkev1.EnvVar{{Value: "a"}} },
			"spec.agentEnvVars[0].name", "not empty",
		},
		"endpoint without a host": {
			func(c *provv1.Cluster) {
				c.Spec.LocalClusterAuthEndpoint = rkev1.LocalClusterAuthEndpoint{Enabled: true, CACerts: "pem"}
			},
			"spec.localClusterAuthEndpoint.fqdn", "set the host name of caCerts",
		},
		"relative directory": {
			func(c *provv1.Cluster) { c.Spec.RKEConfig.DataDirectories.Provisioning = "var/lib" },
			"spec.rkeConfig.dataDirectories.provisioning", "absolute path",
		},
		"directory that a shell would expand": {
			func(c *provv1.Cluster) { c.Spec.RKEConfig.DataDirectories.K8sDistro = "/data/$HOME" },
			"spec.rkeConfig.dataDirectories.k8sDistro", "special characters of a shell",
		},
		"nested directories": {
			func(c *provv1.Cluster) {
				c.Spec.RKEConfig.DataDirectories = rkev1.DataDirectories{SystemAgent: "/data",
					K8sDistro: "/data/deep/rke2"}
			},
			"spec.rkeConfig.dataDirectories.k8sDistro", "a separate directory",
		},
		"file from two sources": {
			func(c *provv1.Cluster) {
				c.Spec.RKEConfig.MachineSelectorFiles = []rkev1.RKEProvisioningFiles{
					{FileSources: []rkev1.ProvisioningFileSource{{
						Secret: rkev1.K8sObjectFileSource{Name: "a"}, ConfigMap: rkev1.K8sObjectFileSource{Name: "b"},
					}}}}
			},
			"spec.rkeConfig.machineSelectorFiles[0].fileSources[0]", "a separate entry for each",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := demo(t, c.edit)
			errs := topology.Validate(in)
			if len(errs) == 0 {
				t.Fatal("no error")
			}
			message := topology.Explain(errs)
			if !strings.HasPrefix(message, c.wantField+": ") {
				t.Errorf("message %q does not start with the field %q", message, c.wantField)
			}
			if !strings.Contains(message, c.wantRemedy) {
				t.Errorf("message %q does not contain %q", message, c.wantRemedy)
			}
			if again := topology.Explain(topology.Validate(in)); again != message {
				t.Errorf("message is not stable: %q, then %q", message, again)
			}
		})
	}
}

func TestValidate_Accepts(t *testing.T) {
	t.Parallel()
	cases := map[string]func(*provv1.Cluster){
		"the smallest cluster":      func(*provv1.Cluster) {},
		"no pools: custom machines": func(c *provv1.Cluster) { c.Spec.RKEConfig.MachinePools = nil },
		"no rkeConfig: imported": func(c *provv1.Cluster) {
			c.Spec = provv1.ClusterSpec{}
			c.Name = "c-12345"
		},
		"credential of the cluster": func(c *provv1.Cluster) {
			c.Spec.CloudCredentialSecretName = "cattle-global-data:cc-known"
		},
		"credential of the pool wins": func(c *provv1.Cluster) {
			c.Spec.CloudCredentialSecretName = "lost"
			pool(c, 0).CloudCredentialSecretName = "known"
		},
		"a reserved label with the correct value": func(c *provv1.Cluster) {
			pool(c, 0).Labels = map[string]string{"cattle.io/os": "linux"}
		},
		"templates of another provider": func(c *provv1.Cluster) {
			pool(c, 0).NodeConfig = &corev1.ObjectReference{
				APIVersion: "infrastructure.cluster.x-k8s.io/v1beta2", Kind: "AWSMachineTemplate", Name: "a",
			}
			c.Spec.CloudCredentialSecretName = "lost and not needed"
		},
		"a config shared by two pools": func(c *provv1.Cluster) {
			second := pool(c, 0).DeepCopy()
			second.Name = "pool2"
			c.Spec.RKEConfig.MachinePools = append(c.Spec.RKEConfig.MachinePools, *second)
		},
		"all health settings": func(c *provv1.Cluster) {
			pool(c, 0).UnhealthyNodeTimeout = &metav1.Duration{Duration: time.Minute}
			pool(c, 0).MaxUnhealthy, pool(c, 0).UnhealthyRange = new("40%"), new("[1-2]")
		},
		"a name of 63 characters": func(c *provv1.Cluster) { c.Name = strings.Repeat("n", 63) },
		"linux machines with user data": func(c *provv1.Cluster) {
			pool(c, 0).MachineOS = "linux"
			withUserdata(c, "## template: jinja\n#cloud-config\nruncmd:\n- echo '{{ ds }}'\n")
		},
		"user data without effect on a node driver's machines": func(c *provv1.Cluster) {
			pool(c, 0).Userdata = &rkev1.UserdataSpec{InlineUserdata: "#!/bin/sh\nreboot\n"}
		},
		"no user data": func(c *provv1.Cluster) { pool(c, 0).Userdata = &rkev1.UserdataSpec{} },
		"a variable in PowerShell's form": func(c *provv1.Cluster) {
			c.Spec.AgentEnvVars = []rkev1.EnvVar{{Name: "$env:HTTP_PROXY", Value: "http://a:1"}}
		},
		"three directories": func(c *provv1.Cluster) {
			c.Spec.RKEConfig.DataDirectories = rkev1.DataDirectories{SystemAgent: "/data/agent",
				Provisioning: "/data/capr", K8sDistro: "/data/rke2"}
		},
	}
	for name, edit := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if errs := topology.Validate(demo(t, edit)); len(errs) > 0 {
				t.Errorf("unexpected: %s", topology.Explain(errs))
			}
		})
	}
}

func TestValidate_ForeignMachineConfig(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		owner    metav1.OwnerReference
		wantText string
	}{
		"another cluster": {
			metav1.OwnerReference{APIVersion: "provisioning.cattle.io/v1", Kind: "Cluster", Name: "other"},
			"can not use fleet-default/nc-demo [rke-machine-config.cattle.io/v1, Kind=PodConfig] because it is " +
				"already owned by cluster other",
		},
		"another controller": {
			metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "d", Controller: new(true)},
			"because it is already owned by Deployment d",
		},
		"a cluster of another group": {
			metav1.OwnerReference{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Name: "other"}, "",
		},
		"this cluster, whatever its UID": {
			metav1.OwnerReference{APIVersion: "provisioning.cattle.io/v1", Kind: "Cluster", Name: "demo", UID: "old"},
			"",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := demo(t)
			in.MachineConfigs[podRef].SetOwnerReferences([]metav1.OwnerReference{c.owner})
			got := topology.Explain(topology.Validate(in))
			if c.wantText == "" && got != "" || !strings.Contains(got, c.wantText) {
				t.Errorf("got %q, want it to contain %q", got, c.wantText)
			}
		})
	}
}

func TestValidate_DriverWasDeactivated(t *testing.T) {
	t.Parallel()
	existing := demo(t)
	existing.Schemas = nil
	if errs := topology.Validate(existing); len(errs) > 0 {
		t.Errorf("an existing cluster breaks: %s", topology.Explain(errs))
	}
	withoutCopy := demo(t)
	withoutCopy.Schemas = nil
	pool(withoutCopy.Cluster, 0).DynamicSchemaSpec = ""
	withoutConfig := demo(t)
	withoutConfig.Schemas, withoutConfig.MachineConfigs = nil, nil
	for name, in := range map[string]topology.Input{"no copy of the schema": withoutCopy,
		"no machine config": withoutConfig} {
		if got := topology.Explain(topology.Validate(in)); !strings.Contains(got,
			"register or activate the NodeDriver") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestExplain_LimitsTheErrors(t *testing.T) {
	t.Parallel()
	in := demo(t, func(c *provv1.Cluster) {
		for range 9 {
			c.Spec.AgentEnvVars = append(c.Spec.AgentEnvVars, rkev1.EnvVar{})
		}
	})
	if got := topology.Explain(topology.Validate(in)); strings.Count(got, "; ") != 5 ||
		!strings.HasSuffix(got, "and more") {
		t.Errorf("got %q", got)
	}
}

// withUserdata gives the first pool user data and machines of another infrastructure provider, which use them.
func withUserdata(c *provv1.Cluster, text string) {
	pool(c, 0).NodeConfig = &corev1.ObjectReference{APIVersion: "infrastructure.cluster.x-k8s.io/v1beta2",
		Kind: "AWSMachineTemplate", Name: "aws-a"}
	pool(c, 0).Userdata = &rkev1.UserdataSpec{InlineUserdata: text}
}

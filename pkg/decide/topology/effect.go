package topology

import (
	"fmt"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
)

// ReasonWithoutEffect is the reason for a field that is set and has no effect.
const ReasonWithoutEffect = "FieldWithoutEffect"

// Ignored is a field that is set and has no effect.
type Ignored struct {
	// Field is the path of the field. Message says what to do instead.
	Field, Message string
}

// String is a line for users.
func (i Ignored) String() string { return i.Field + ": " + i.Message }

// ofCluster are the fields of a Cluster that manifests for other managers have. Drover accepts and ignores them.
var ofCluster = []struct {
	field, message string
	isSet          func(*provv1.ClusterSpec) bool
}{
	{
		"spec.redeploySystemAgentGeneration", "has no effect: to install the agent of a node again, run the " +
			"registration command on the node, or replace the machine",
		func(s *provv1.ClusterSpec) bool { return s.RedeploySystemAgentGeneration != 0 },
	},
	{
		"spec.defaultPodSecurityAdmissionConfigurationTemplateName",
		"has no effect: write the configuration with machineSelectorFiles, and set the file in kube-apiserver-arg of " +
			"machineGlobalConfig",
		func(s *provv1.ClusterSpec) bool { return s.DefaultPodSecurityAdmissionConfigurationTemplateName != "" },
	},
	{
		"spec.defaultPodSecurityPolicyTemplateName", "has no effect: Kubernetes no longer has PodSecurityPolicies; " +
			"remove the field",
		func(s *provv1.ClusterSpec) bool { return s.DefaultPodSecurityPolicyTemplateName != "" },
	},
	{
		"spec.enableNetworkPolicy", "isolates nothing: Drover only copies it to the Cluster of management.cattle.io " +
			"for other programs; create NetworkPolicies in the cluster",
		func(s *provv1.ClusterSpec) bool { return s.EnableNetworkPolicy != nil && *s.EnableNetworkPolicy },
	},
	{
		"spec.clusterAPIConfig", "has no effect: Drover does not adopt an existing Cluster API cluster; remove " +
			"the field",
		func(s *provv1.ClusterSpec) bool { return s.ClusterAPIConfig != nil },
	},
	{
		"spec.rkeConfig.upgradeStrategy.controlPlaneDrainOptions.ignoreErrors", drainsFail,
		func(s *provv1.ClusterSpec) bool {
			return s.RKEConfig.UpgradeStrategy.ControlPlaneDrainOptions.IgnoreErrors
		},
	},
	{
		"spec.rkeConfig.upgradeStrategy.workerDrainOptions.ignoreErrors", drainsFail,
		func(s *provv1.ClusterSpec) bool { return s.RKEConfig.UpgradeStrategy.WorkerDrainOptions.IgnoreErrors },
	},
}

const drainsFail = "has no effect: Drover retries a failed drain; for pods that do not leave, set timeout, or force " +
	"and disableEviction"

// WithoutEffect returns the fields of a Cluster that are set and have no effect. They are not errors, because manifests
// for other managers have them.
func WithoutEffect(cluster *provv1.Cluster) []Ignored {
	if cluster.Spec.RKEConfig == nil {
		return nil
	}
	var out []Ignored
	for _, f := range ofCluster {
		if f.isSet(&cluster.Spec) {
			out = append(out, Ignored{f.field, f.message})
		}
	}
	for i := range cluster.Spec.RKEConfig.MachinePools {
		pool, at := &cluster.Spec.RKEConfig.MachinePools[i], fmt.Sprintf("spec.rkeConfig.machinePools[%d]", i)
		_, ours := configRef(pool)
		if ours && pool.Userdata != nil && pool.Userdata.InlineUserdata != "" {
			out = append(out,
				Ignored{at + ".userdata",
					"has no effect on machines of node drivers: set the user data in the pool's machine config, if " +
						"its driver takes them"})
		}
		if ref := pool.NodeConfig; ref != nil && ref.Namespace != "" && ref.Namespace != cluster.Namespace {
			out = append(out, Ignored{at + ".machineConfigRef.namespace", fmt.Sprintf("has no effect: the machine "+
				"config must be in %s, the cluster's namespace", cluster.Namespace)})
		}
	}
	return out
}

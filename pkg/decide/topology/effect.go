package topology

import (
	"fmt"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/hostremoval"
)

// ReasonWithoutEffect is the reason for a field that is set and has no effect.
const ReasonWithoutEffect = "FieldWithoutEffect"

// Ignored is a field or an annotation that is set and has no effect.
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
		"spec.defaultClusterRoleForProjectMembers", "grants nothing: Drover has no projects, and only copies it to " +
			"the Cluster of management.cattle.io for other programs; create RoleBindings in the cluster",
		func(s *provv1.ClusterSpec) bool { return s.DefaultClusterRoleForProjectMembers != "" },
	},
	{
		"spec.clusterAPIConfig", "has no effect: Drover does not adopt an existing Cluster API cluster; remove " +
			"the field",
		func(s *provv1.ClusterSpec) bool { return s.ClusterAPIConfig != nil },
	},
	{
		"spec.webhookDeploymentCustomization", "has no effect: Drover installs no admission webhook into clusters, " +
			"and " +
			"only copies the field to the Cluster of management.cattle.io for other programs; remove the field",
		func(s *provv1.ClusterSpec) bool { return s.WebhookDeploymentCustomization != nil },
	},
}

// annotationsOfCluster are the annotations of a Cluster that manifests for other managers have. Drover accepts and
// ignores them.
var annotationsOfCluster = []struct{ key, message string }{
	{
		provv1.EnableFleetSchedulingCustomizationAnnotation, "has no effect: set schedulingCustomization of " +
			"spec.fleetAgentDeploymentCustomization",
	},
	{
		provv1.HarvesterRemoveAllVolumesAnnotation, "has no effect: delete the volumes in Harvester after the " +
			"machines are gone",
	},
}

// WithoutEffect returns the fields and annotations of a Cluster that are set and have no effect. They are not errors,
// because manifests for other managers have them.
func WithoutEffect(cluster *provv1.Cluster) []Ignored {
	var out []Ignored
	if ignored, yes := podSecurityIgnored(cluster); yes {
		out = append(out, ignored)
	}
	if cluster.Spec.RKEConfig == nil {
		return out
	}
	for _, f := range ofCluster {
		if f.isSet(&cluster.Spec) {
			out = append(out, Ignored{f.field, f.message})
		}
	}
	const missing = rkev1.DeleteMissingCustomMachinesAfterAnnotation
	if _, err := hostremoval.ParseAfter(cluster.Annotations[missing]); err != nil {
		out = append(out, Ignored{"metadata.annotations[" + missing + "]", "has no effect: " + err.Error() +
			"; until then Drover keeps hosts that are away"})
	}
	for _, a := range annotationsOfCluster {
		if cluster.Annotations[a.key] != "" {
			out = append(out, Ignored{"metadata.annotations[" + a.key + "]", a.message})
		}
	}
	for i := range cluster.Spec.RKEConfig.MachinePools {
		out = append(out, withoutEffectOfPool(cluster, i)...)
	}
	return out
}

// withoutEffectOfPool returns the fields of one pool that are set and have no effect.
func withoutEffectOfPool(cluster *provv1.Cluster, i int) []Ignored {
	var out []Ignored
	pool, at := &cluster.Spec.RKEConfig.MachinePools[i], fmt.Sprintf("spec.rkeConfig.machinePools[%d]", i)
	if pool.DisplayName != "" {
		out = append(out, Ignored{at + ".displayName", "has no effect: the pool has the name in name; remove the " +
			"field"})
	}
	if _, ours := configRef(pool); ours && pool.Userdata != nil && pool.Userdata.InlineUserdata != "" {
		out = append(out, Ignored{at + ".userdata",
			"has no effect on machines of node drivers: set the user data in the pool's machine config, if its " +
				"driver takes them"})
	}
	if ref := pool.NodeConfig; ref != nil && ref.Namespace != "" && ref.Namespace != cluster.Namespace {
		out = append(out, Ignored{at + ".machineConfigRef.namespace", fmt.Sprintf("has no effect: the machine config "+
			"must be in %s, the cluster's namespace", cluster.Namespace)})
	}
	return out
}

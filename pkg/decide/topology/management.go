package topology

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
)

// Registry is the installation's image registry, for clusters that name none. Both fields may be empty.
type Registry struct {
	URL, PullSecret string
}

const managementVersion = "management.cattle.io/v3"

// registryKey is the configuration key with the registry of a cluster.
const registryKey = "system-default-registry"

// importedName is the form of the names of clusters that were created from their management cluster. Drover creates no
// management objects for them.
var importedName = regexp.MustCompile(`^(c-[a-z0-9]{5}|local)$`)

// HasOwnManagement reports whether the management cluster follows from the Cluster, and not the other way round.
func HasOwnManagement(cluster *provv1.Cluster) bool {
	return cluster.Spec.RKEConfig != nil || !importedName.MatchString(cluster.Name)
}

// Management returns the management objects of a cluster: its management Cluster, the namespace of that name, and the
// tokens with which hosts and the agent inside the cluster register. status.clusterName must be set.
// (docs/wire/capi.md#management-cluster.)
func Management(cluster *provv1.Cluster, registry Registry) []runtime.Object {
	name := cluster.Status.ClusterName
	objects := []runtime.Object{
		ManagementCluster(cluster, registry),
		&corev1.Namespace{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: name},
		},
	}
	if cluster.Spec.RKEConfig == nil {
		return append(objects, registrationToken(name, naming.DefaultRegistrationToken, mgmtv3.TokenPurposeAgent))
	}
	return append(objects,
		registrationToken(name, naming.DefaultRegistrationToken, mgmtv3.TokenPurposeNode),
		registrationToken(name, naming.SystemRegistrationToken, mgmtv3.TokenPurposeAgent))
}

// registrationToken asks for a token for one purpose only. The token for hosts may leak, for example in a machine's
// metadata. It does not permit the registration of an agent.
func registrationToken(managementCluster, name, purpose string) *mgmtv3.ClusterRegistrationToken {
	return &mgmtv3.ClusterRegistrationToken{
		TypeMeta: metav1.TypeMeta{APIVersion: managementVersion, Kind: "ClusterRegistrationToken"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: managementCluster, Name: name, Labels: map[string]string{mgmtv3.TokenPurposeLabel: purpose},
		},
		Spec: mgmtv3.ClusterRegistrationTokenSpec{ClusterName: managementCluster},
	}
}

// Workspace is the workspace of a cluster: the requested one, or its namespace.
func Workspace(cluster *provv1.Cluster) string {
	if asked := cluster.Annotations[provv1.FleetWorkspaceNameAnnotation]; asked != "" {
		return asked
	}
	return cluster.Namespace
}

// ManagementCluster is the management Cluster of a provisioning Cluster.
func ManagementCluster(cluster *provv1.Cluster, registry Registry) *mgmtv3.Cluster {
	spec := cluster.Spec.DeepCopy()
	safeBudgets(spec)
	administrated, agent := "false", scheduling(cluster, spec.ClusterAgentDeploymentCustomization)
	if spec.RKEConfig != nil {
		administrated = "true"
	}
	object := &mgmtv3.Cluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: managementVersion, Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Name: cluster.Status.ClusterName, Labels: merged(notBookkeeping(cluster.Labels))},
		Spec: mgmtv3.ClusterSpec{
			DisplayName:              cluster.Name,
			Description:              cluster.Annotations[provv1.DescriptionAnnotation],
			ImportedConfig:           &mgmtv3.ImportedConfig{},
			FleetWorkspaceName:       Workspace(cluster),
			LocalClusterAuthEndpoint: spec.LocalClusterAuthEndpoint,
			AgentEnvVars:             agentEnvironment(spec),
			DefaultPodSecurityAdmissionConfigurationTemplateName: spec.DefaultPodSecurityAdmissionConfigurationTemplateName,
			DefaultClusterRoleForProjectMembers:                  spec.DefaultClusterRoleForProjectMembers,
			EnableNetworkPolicy:                                  spec.EnableNetworkPolicy,
			ClusterSecrets:                                       clusterSecrets(spec, registry),
			ClusterAgentDeploymentCustomization:                  agent,
			FleetAgentDeploymentCustomization:                    spec.FleetAgentDeploymentCustomization,
			WebhookDeploymentCustomization:                       spec.WebhookDeploymentCustomization,
		},
	}
	object.Annotations = merged(map[string]string{provv1.AdministratedAnnotation: administrated},
		notBookkeeping(cluster.Annotations))
	return object
}

// notBookkeeping drops the notes of tools and admission about the Cluster itself, and its protection. On another object
// they would be wrong. A copy of the protection could not be removed once the Cluster is being deleted.
func notBookkeeping(m map[string]string) map[string]string {
	kept := map[string]string{}
	for key, value := range m {
		if !strings.HasPrefix(key, "kubectl.kubernetes.io/") && !strings.HasPrefix(key, "objectset.rio.cattle.io/") &&
			!slices.Contains([]string{rkev1.BlockMoveAnnotation, rkev1.GrantsAnnotation, rkev1.ProtectAnnotation,
				rkev1.NotedAnnotation}, key) {
			kept[key] = value
		}
	}
	return kept
}

func agentEnvironment(spec *provv1.ClusterSpec) []corev1.EnvVar {
	var variables []corev1.EnvVar
	for _, variable := range spec.AgentEnvVars {
		variables = append(variables, corev1.EnvVar{Name: variable.Name, Value: variable.Value})
	}
	if spec.RKEConfig != nil && spec.RKEConfig.DataDirectories.SystemAgent != "" {
		variables = append(variables,
			corev1.EnvVar{Name: agentDirVariable, Value: spec.RKEConfig.DataDirectories.SystemAgent})
	}
	return variables
}

// clusterSecrets returns the registry of a cluster's images, and the Secret with its credential.
func clusterSecrets(spec *provv1.ClusterSpec, registry Registry) mgmtv3.ClusterSecrets {
	if spec.RKEConfig == nil {
		return mgmtv3.ClusterSecrets{PrivateRegistryURL: registry.URL, PrivateRegistrySecret: registry.PullSecret}
	}
	url, own := ownRegistry(spec.RKEConfig)
	if !own {
		url = registry.URL
	}
	secrets := mgmtv3.ClusterSecrets{PrivateRegistryURL: url}
	if registries := spec.RKEConfig.Registries; registries != nil && url != "" {
		if config, ok := registries.Configs[url]; ok {
			secrets.PrivateRegistrySecret = config.AuthConfigSecretName
			return secrets
		}
	}
	if !own {
		secrets.PrivateRegistrySecret = registry.PullSecret
	}
	return secrets
}

func ownRegistry(config *provv1.RKEConfig) (string, bool) {
	if url, ok := config.MachineGlobalConfig.Data[registryKey].(string); ok {
		return url, true
	}
	for _, selected := range config.MachineSelectorConfig {
		if url, ok := selected.Config.Data[registryKey].(string); ok && selected.MachineLabelSelector == nil {
			return url, true
		}
	}
	return "", false
}

// MachineProvider is one word for the origin of a cluster's machines, for lists in user interfaces.
// (docs/wire/capi.md#management-cluster.)
func MachineProvider(cluster *provv1.Cluster) string {
	switch shown := cluster.Annotations[provv1.UIProviderAnnotation]; {
	case shown != "":
		return shown
	case cluster.Spec.RKEConfig == nil:
		return "imported"
	case len(pools(cluster)) == 0:
		return "custom"
	case pools(cluster)[0].NodeConfig == nil:
		return ""
	default:
		return strings.ToLower(strings.TrimSuffix(pools(cluster)[0].NodeConfig.Kind, configSuffix))
	}
}

// Distribution is the distribution of a Kubernetes version, or "" when the version does not contain one.
func Distribution(kubernetesVersion string) string {
	for _, distribution := range []string{"k3s", "rke2"} {
		if strings.Contains(kubernetesVersion, "+"+distribution) {
			return distribution
		}
	}
	return ""
}

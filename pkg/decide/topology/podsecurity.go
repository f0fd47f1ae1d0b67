package topology

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/naming"
)

// The parts of a Pod Security configuration that other programs see. (docs/wire/secrets.md#pod-security.)
const (
	podSecurityKey      = "admission-config-psact"
	podSecurityFile     = "/etc/rancher/%s/config/rancher-psact.yaml"
	podSecurityArgument = "admission-control-config-file"

	apiServerArguments = "kube-apiserver-arg"
	podSecurityField   = "spec.defaultPodSecurityAdmissionConfigurationTemplateName"
)

// PodSecurityTemplate returns the name of the template that a cluster uses, or "".
func PodSecurityTemplate(cluster *provv1.Cluster) string {
	if _, ignored := podSecurityIgnored(cluster); ignored {
		return ""
	}
	return cluster.Spec.DefaultPodSecurityAdmissionConfigurationTemplateName
}

// podSecurityIgnored reports a template that has no effect. An argument of the user has precedence over the field.
func podSecurityIgnored(cluster *provv1.Cluster) (Ignored, bool) {
	switch config := cluster.Spec.RKEConfig; {
	case cluster.Spec.DefaultPodSecurityAdmissionConfigurationTemplateName == "":
		return Ignored{}, false
	case config == nil:
		return Ignored{podSecurityField, "has no effect on an imported cluster: configure its API servers, or label " +
			"its namespaces"}, true
	default:
		at := otherAdmissionConfig(config, podSecurityArgument+"="+podSecurityPath(cluster))
		return Ignored{podSecurityField, fmt.Sprintf("has no effect, because %s contains %s: remove that argument, or "+
			"this field", at, podSecurityArgument)}, at != ""
	}
}

// otherAdmissionConfig returns the field that sets another file than Drover's, or "".
func otherAdmissionConfig(config *provv1.RKEConfig, own string) string {
	isOther := func(argument any) bool {
		text, _ := argument.(string)
		return strings.HasPrefix(text, podSecurityArgument+"=") && text != own
	}
	if slices.ContainsFunc(arguments(config.MachineGlobalConfig.Data[apiServerArguments]), isOther) {
		return "spec.rkeConfig.machineGlobalConfig." + apiServerArguments
	}
	for i, selected := range config.MachineSelectorConfig {
		if slices.ContainsFunc(arguments(selected.Config.Data[apiServerArguments]), isOther) {
			return fmt.Sprintf("spec.rkeConfig.machineSelectorConfig[%d].config.%s", i, apiServerArguments)
		}
	}
	return ""
}

// arguments reads the value of a key that is a list or a single string.
func arguments(value any) []any {
	switch v := value.(type) {
	case []any:
		return v
	case []string:
		out := make([]any, len(v))
		for i, argument := range v {
			out[i] = argument
		}
		return out
	case string:
		if v != "" {
			return []any{v}
		}
	}
	return nil
}

func podSecurityPath(cluster *provv1.Cluster) string {
	return fmt.Sprintf(podSecurityFile, distro.RuntimeOf(cluster.Spec.KubernetesVersion))
}

// podSecurityVersion returns the version of the plugin's configuration for a Kubernetes version, or "" if it has none.
func podSecurityVersion(kubernetesVersion string) string {
	version, err := semver.NewVersion(strings.TrimPrefix(kubernetesVersion, "v"))
	switch {
	case err != nil, version.Major() == 1 && version.Minor() < 23:
		return ""
	case version.Major() == 1 && version.Minor() < 25:
		return "pod-security.admission.config.k8s.io/v1beta1"
	default:
		return "pod-security.admission.config.k8s.io/v1"
	}
}

// validatePodSecurity checks the template that a cluster names. An existing cluster keeps the configuration that it
// has.
func validatePodSecurity(in Input) field.ErrorList {
	name := PodSecurityTemplate(in.Cluster)
	if name == "" {
		return nil
	}
	at := field.NewPath("spec", "defaultPodSecurityAdmissionConfigurationTemplateName")
	switch version := in.Cluster.Spec.KubernetesVersion; {
	case podSecurityVersion(version) == "" && len(validateVersion(in.Cluster, at)) > 0:
		return nil // the version itself is wrong
	case podSecurityVersion(version) == "":
		return field.ErrorList{field.Invalid(at, name, "requires Kubernetes v1.23 or newer: remove the field, or "+
			"raise spec.kubernetesVersion").WithOrigin(safeValue)}
	case in.alone:
		return nil
	case in.PodSecurity == nil:
		return notFound([]absence{{at: at, value: name,
			what:   "no PodSecurityAdmissionConfigurationTemplate has this name",
			remedy: "create it, or correct the name", tolerated: true}})
	}
	if problem := templateProblem(&in.PodSecurity.Configuration); problem != "" {
		return field.ErrorList{field.Invalid(at, name, "correct the PodSecurityAdmissionConfigurationTemplate: "+
			problem).WithOrigin(safeValue)}
	}
	return nil
}

var podSecurityLevelVersion = regexp.MustCompile(`^(latest|v1\.(0|[1-9][0-9]*))?$`)

// templateProblem describes the first mistake in a template, or returns "". An API server with a wrong configuration
// does not start, and the schema of the template may be another program's.
func templateProblem(t *mgmtv3.PodSecurityAdmissionConfigurationTemplateSpec) string {
	d := &t.Defaults
	for _, mode := range []struct{ name, level, version string }{
		{"enforce", d.Enforce, d.EnforceVersion}, {"audit", d.Audit, d.AuditVersion}, {"warn", d.Warn, d.WarnVersion},
	} {
		if !slices.Contains([]string{"", "privileged", "baseline", "restricted"}, mode.level) {
			return "configuration.defaults." + mode.name + " must be privileged, baseline or restricted"
		}
		if !podSecurityLevelVersion.MatchString(mode.version) {
			return "configuration.defaults." + mode.name + "-version must be latest or a minor version such as v1.36"
		}
	}
	for _, list := range []struct {
		name, must string
		values     []string
		check      func(string) []string
	}{
		{"usernames", "not be empty", t.Exemptions.Usernames, isEmpty},
		{"namespaces", "be names of namespaces", t.Exemptions.Namespaces, validation.IsDNS1123Label},
		{
			"runtimeClasses", "be names of RuntimeClasses", t.Exemptions.RuntimeClasses,
			validation.IsDNS1123Subdomain,
		},
	} {
		seen := map[string]bool{}
		for _, value := range list.values {
			if len(list.check(value)) > 0 || seen[value] {
				return "entries of configuration.exemptions." + list.name + " must " + list.must + ", and unique"
			}
			seen[value] = true
		}
	}
	return ""
}

func isEmpty(s string) []string {
	if s == "" {
		return []string{"is empty"}
	}
	return nil
}

// canRenderPodSecurity reports whether the template of the cluster exists and is valid.
func canRenderPodSecurity(in Input) bool {
	return in.PodSecurity != nil && PodSecurityTemplate(in.Cluster) != "" &&
		podSecurityVersion(in.Cluster.Spec.KubernetesVersion) != "" &&
		templateProblem(&in.PodSecurity.Configuration) == ""
}

// hasPodSecurity reports whether the API servers of a cluster use a template. While it is missing or wrong, they keep
// the configuration that was made from it.
func hasPodSecurity(in Input) bool {
	return canRenderPodSecurity(in) || in.PodSecurityStored && PodSecurityTemplate(in.Cluster) != "" &&
		podSecurityVersion(in.Cluster.Spec.KubernetesVersion) != ""
}

// PodSecuritySecret returns the Secret with the Pod Security configuration of a cluster's API servers. It is nil if the
// cluster uses no template, or if the template is missing or wrong. (docs/wire/secrets.md#pod-security.)
func PodSecuritySecret(in Input) (*corev1.Secret, error) {
	if !canRenderPodSecurity(in) {
		return nil, nil
	}
	cluster := in.Cluster
	configuration := map[string]any{}
	encoded, err := json.Marshal(in.PodSecurity.Configuration)
	if err == nil {
		err = json.Unmarshal(encoded, &configuration)
	}
	if err != nil {
		return nil, fmt.Errorf("encode template %s: %w", in.PodSecurity.Name, err)
	}
	configuration["apiVersion"] = podSecurityVersion(cluster.Spec.KubernetesVersion)
	configuration["kind"] = "PodSecurityConfiguration"
	content, err := yaml.Marshal(map[string]any{
		"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration",
		"plugins": []any{map[string]any{"name": "PodSecurity", "path": "", "configuration": configuration}},
	})
	if err != nil {
		return nil, fmt.Errorf("encode template %s: %w", in.PodSecurity.Name, err)
	}
	secret := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: objectMeta(cluster, naming.PodSecurity(cluster.Name)),
		Type:       corev1.SecretTypeOpaque, Data: map[string][]byte{podSecurityKey: content},
	}
	secret.Labels = map[string]string{rkev1.BackupLabel: "true"}
	secret.Annotations = map[string]string{rkev1.AuthorizedObjectAnnotation: cluster.Name}
	secret.OwnerReferences = []metav1.OwnerReference{OwnerReference(cluster, true)}
	return secret, nil
}

// MergePodSecurity completes an existing Secret. It returns a changed copy, or nil when nothing is missing. Labels,
// annotations and owners of others stay.
func MergePodSecurity(have, wanted *corev1.Secret) *corev1.Secret {
	out := have.DeepCopy()
	if out.Labels == nil {
		out.Labels = map[string]string{}
	}
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	maps.Copy(out.Labels, wanted.Labels)
	maps.Copy(out.Annotations, wanted.Annotations)
	owner := wanted.OwnerReferences[0]
	out.OwnerReferences = slices.DeleteFunc(out.OwnerReferences, func(ref metav1.OwnerReference) bool {
		return ref.APIVersion == owner.APIVersion && ref.Kind == owner.Kind
	})
	if metav1.GetControllerOf(out) != nil {
		owner.Controller, owner.BlockOwnerDeletion = nil, nil
	}
	out.OwnerReferences = append(out.OwnerReferences, owner)
	out.Data = wanted.Data
	if sameSecret(have, out) {
		return nil
	}
	return out
}

func sameSecret(a, b *corev1.Secret) bool {
	return maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) &&
		maps.EqualFunc(a.Data, b.Data, slices.Equal) &&
		slices.EqualFunc(a.OwnerReferences, b.OwnerReferences, func(x, y metav1.OwnerReference) bool {
			return x.UID == y.UID && x.Name == y.Name && x.Kind == y.Kind
		})
}

// HasPodSecurity reports whether a Secret contains a Pod Security configuration. Nil contains none.
func HasPodSecurity(secret *corev1.Secret) bool {
	return secret != nil && len(secret.Data[podSecurityKey]) > 0
}

// NamesPodSecurity reports whether a configuration writes a file from the Secret with the Pod Security configuration.
func NamesPodSecurity(cluster string, config *rkev1.ClusterConfiguration) bool {
	return slices.ContainsFunc(config.MachineSelectorFiles, func(files rkev1.RKEProvisioningFiles) bool {
		return slices.ContainsFunc(files.FileSources, func(source rkev1.ProvisioningFileSource) bool {
			return source.Secret.Name == naming.PodSecurity(cluster)
		})
	})
}

// addPodSecurity adds the file and the argument to the configuration of a control plane. Manifests from Rancher may
// contain both, and a hash of the content. The content follows the template, so a hash of an older one would be wrong.
func addPodSecurity(cluster *provv1.Cluster, config *rkev1.ClusterConfiguration) {
	path, secret, present := podSecurityPath(cluster), naming.PodSecurity(cluster.Name), false
	for i := range config.MachineSelectorFiles {
		for j := range config.MachineSelectorFiles[i].FileSources {
			source := &config.MachineSelectorFiles[i].FileSources[j].Secret
			for k := range source.Items {
				if item := &source.Items[k]; source.Name == secret && item.Key == podSecurityKey {
					item.Hash = ""
					present = present || item.Path == path
				}
			}
		}
	}
	if !present {
		config.MachineSelectorFiles = append(config.MachineSelectorFiles, rkev1.RKEProvisioningFiles{
			MachineLabelSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{rkev1.ControlPlaneRoleLabel: rkev1.RoleLabelValue},
			},
			FileSources: []rkev1.ProvisioningFileSource{{Secret: rkev1.K8sObjectFileSource{
				Name: secret, Items: []rkev1.KeyToPath{{Key: podSecurityKey, Path: path}},
			}}},
		})
	}
	if config.MachineGlobalConfig.Data == nil {
		config.MachineGlobalConfig.Data = map[string]any{}
	}
	argument := podSecurityArgument + "=" + path
	addArgument(config.MachineGlobalConfig.Data, argument)
	for i := range config.MachineSelectorConfig {
		// The value replaces the one for all machines.
		if data := config.MachineSelectorConfig[i].Config.Data; data[apiServerArguments] != nil {
			addArgument(data, argument)
		}
	}
}

// addArgument puts an argument of the API server first, unless the configuration contains it.
func addArgument(config map[string]any, argument string) {
	had := arguments(config[apiServerArguments])
	if !slices.Contains(had, any(argument)) {
		config[apiServerArguments] = append([]any{argument}, had...)
	}
}

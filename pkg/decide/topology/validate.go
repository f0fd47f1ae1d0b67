package topology

import (
	"path"
	"regexp"
	"strings"

	"github.com/Masterminds/semver/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/bootstrapdata"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/redact"
)

// legacyName is the form of the names of imported clusters.
var legacyName = regexp.MustCompile(`^c-[a-z0-9]{5}$`)

// Validate returns the errors of a Cluster. Each names the field and what would be right. A Cluster without rkeConfig
// is not provisioned and has no errors.
//
// An error stops the generation of all objects: a cluster is never generated in part. For an existing cluster, some
// errors are Tolerated.
func Validate(in Input) field.ErrorList {
	cluster := in.Cluster
	if cluster.Spec.RKEConfig == nil {
		return nil
	}
	spec := field.NewPath("spec")
	config := spec.Child("rkeConfig")
	var errs field.ErrorList
	errs = append(errs, validateName(cluster)...)
	errs = append(errs, validateVersion(cluster, spec.Child("kubernetesVersion"))...)
	errs = append(errs, validateEnvironment(cluster.Spec.AgentEnvVars, spec.Child("agentEnvVars"))...)
	if agent := cluster.Spec.ClusterAgentDeploymentCustomization; agent != nil && agent.SchedulingCustomization != nil {
		at := spec.Child("clusterAgentDeploymentCustomization", "schedulingCustomization", "podDisruptionBudget")
		errs = append(errs, ValidateBudget(agent.SchedulingCustomization.PodDisruptionBudget, at)...)
	}
	errs = append(errs, validateAuthEndpoint(cluster.Spec.LocalClusterAuthEndpoint,
		spec.Child("localClusterAuthEndpoint"))...)
	errs = append(errs, validatePodSecurity(in)...)
	errs = append(errs, validateInfrastructure(in, config.Child("infrastructureRef"))...)
	errs = append(errs, validateDirectories(cluster.Spec.RKEConfig.DataDirectories, config.Child("dataDirectories"))...)
	errs = append(errs, validateRegistries(cluster.Spec.RKEConfig, config)...)
	errs = append(errs, validateFiles(cluster.Spec.RKEConfig.MachineSelectorFiles,
		config.Child("machineSelectorFiles"))...)
	ofPools := validatePools(in, config.Child("machinePools"))
	if in.all || !anyRefused(ofPools) {
		ofPools = append(ofPools, validateServers(KeepRoles(in), config.Child("machinePools"))...)
	}
	return append(errs, ofPools...)
}

// ValidateAlone is Validate without the objects that a Cluster refers to: machine configs, schemas of drivers and
// credentials. They may be created later.
func ValidateAlone(in Input) field.ErrorList {
	in.alone = true
	return Validate(in)
}

// ValidateBefore is ValidateAlone for a Cluster as it was before an edit. It includes errors that other errors hide,
// because the correction of one error did not cause the error behind it. See News.
func ValidateBefore(in Input) field.ErrorList {
	in.all = true
	return ValidateAlone(in)
}

// shownErrors is the maximum number of errors in a message.
const shownErrors = 5

// Explain writes errors into one line for a condition. Equal errors give equal lines.
func Explain(errs field.ErrorList) string {
	lines := make([]string, 0, min(len(errs), shownErrors))
	for _, err := range errs {
		if len(lines) == shownErrors {
			lines = append(lines, "and more")
			break
		}
		lines = append(lines, err.Error())
	}
	return strings.Join(lines, "; ")
}

func validateName(cluster *provv1.Cluster) field.ErrorList {
	at := field.NewPath("metadata", "name")
	switch {
	case len(cluster.Name) > naming.MaxClusterName:
		return field.ErrorList{field.Invalid(at, cluster.Name,
			"is too long: the name is a label of the cluster's machines; choose a name of at most 63 characters")}
	case len(validation.IsDNS1123Label(cluster.Name)) > 0:
		return field.ErrorList{field.Invalid(at, cluster.Name,
			"must consist of lower case letters, digits and dashes, and start and end with a letter or digit")}
	case legacyName.MatchString(cluster.Name):
		return field.ErrorList{field.Invalid(at, cluster.Name,
			"has the reserved form of imported clusters (c- and five characters); choose another name")}
	default:
		return nil
	}
}

func validateVersion(cluster *provv1.Cluster, at *field.Path) field.ErrorList {
	version := cluster.Spec.KubernetesVersion
	if version == "" {
		return field.ErrorList{field.Required(at, "kubernetesVersion not set on "+cluster.Namespace+"/"+cluster.Name+
			": set the full version of a distribution, for example v1.36.2+rke2r1 or v1.36.2+k3s1")}
	}
	number, hasPrefix := strings.CutPrefix(version, "v")
	if _, err := semver.StrictNewVersion(number); err != nil || !hasPrefix {
		return field.ErrorList{field.Invalid(at, version,
			"must be v and a semantic version, for example v1.36.2+rke2r1 or v1.36.2+k3s1")}
	}
	return nil
}

// agentDirVariable would move the agent's directory without the field for it.
const agentDirVariable = "CATTLE_AGENT_VAR_DIR"

func validateEnvironment(variables []rkev1.EnvVar, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, variable := range variables {
		switch {
		case !bootstrapdata.ValidVariable(variable.Name):
			wrong := field.Invalid(at.Index(i).Child("name"), redact.Variable(variable.Name),
				"must be the name of a shell variable: not empty, letters, digits and _, not starting with a digit")
			if variable.Name != "" && !strings.ContainsAny(variable.Name, "= \t\n\x00") {
				// Plans of existing machines keep the variable. Only new machines cannot be created with it.
				wrong = wrong.WithOrigin(safeValue)
			}
			errs = append(errs, wrong)
		case variable.Name == agentDirVariable:
			errs = append(errs, field.Forbidden(at.Index(i).Child("name"),
				agentDirVariable+" comes from spec.rkeConfig.dataDirectories.systemAgent; set that field instead"))
		case strings.EqualFold(variable.Name, "NO_PROXY") && strings.ContainsAny(variable.Value, " \t"):
			// The value is not shown, because proxies may contain passwords.
			errs = append(errs, field.Invalid(at.Index(i).Child("value"), field.OmitValueType{},
				"must be a list with commas and without spaces"))
		}
	}
	return errs
}

// ValidateBudget returns the errors of an agent's disruption budget: exactly one amount must be given, and must not be
// 0. User interfaces write 0 for the other amount. The safe value is no budget.
func ValidateBudget(wanted *provv1.PodDisruptionBudgetSpec, at *field.Path) field.ErrorList {
	if wanted == nil {
		return nil
	}
	none := func(s string) bool { return s == "" || s == "0" }
	switch least, most := wanted.MinAvailable, wanted.MaxUnavailable; {
	case least == most && none(least):
		return field.ErrorList{
			field.Required(at,
				"set minAvailable or maxUnavailable to more than 0, or remove the podDisruptionBudget").WithOrigin(
				safeValue)}
	case !none(least) && !none(most):
		return field.ErrorList{field.Forbidden(at.Child("maxUnavailable"), "minAvailable is also set: set only one "+
			"of them").WithOrigin(safeValue)}
	}
	return nil
}

func validateAuthEndpoint(endpoint rkev1.LocalClusterAuthEndpoint, at *field.Path) field.ErrorList {
	if endpoint.Enabled && endpoint.CACerts != "" && endpoint.FQDN == "" {
		return field.ErrorList{field.Required(at.Child("fqdn"), "set the host name of caCerts, or remove caCerts")}
	}
	if _, ok := EndpointHost(endpoint.FQDN); !ok && endpoint.FQDN != "" {
		return field.ErrorList{field.Invalid(at.Child("fqdn"), endpoint.FQDN,
			"must be HOST or HOST:PORT, for example demo.example.com:6443").WithOrigin(safeValue)}
	}
	return nil
}

func validateInfrastructure(in Input, at *field.Path) field.ErrorList {
	ref := in.Cluster.Spec.RKEConfig.InfrastructureRef
	if ref == nil {
		return nil
	}
	var errs field.ErrorList
	if ref.Kind == "" {
		errs = append(errs, field.Required(at.Child("kind"), "set the kind of the infrastructure cluster"))
	}
	if ref.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), "set the name of the infrastructure cluster"))
	}
	if group, version, ok := strings.Cut(ref.APIVersion, "/"); !ok || group == "" || version == "" {
		errs = append(errs, field.Invalid(at.Child("apiVersion"), ref.APIVersion,
			"must be a group and a version, for example infrastructure.cluster.x-k8s.io/v1beta2"))
	}
	if len(errs) > 0 || in.alone {
		return errs
	}
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
	return notFound(absentKind(in, kind, at.Child("kind"), "", true))
}

// unsafeInPath are characters that a shell or an expansion would interpret.
const unsafeInPath = "\"'`*?#~=%$&;<>{}[]()|"

func validateDirectories(directories rkev1.DataDirectories, at *field.Path) field.ErrorList {
	named := []struct{ name, value string }{
		{"systemAgent", directories.SystemAgent},
		{"provisioning", directories.Provisioning},
		{"k8sDistro", directories.K8sDistro},
	}
	var errs field.ErrorList
	for i, directory := range named {
		if directory.value == "" {
			continue
		}
		if !path.IsAbs(directory.value) || path.Clean(directory.value) != directory.value ||
			strings.ContainsAny(directory.value, unsafeInPath+" \t\n") {
			errs = append(errs, field.Invalid(at.Child(directory.name), directory.value,
				"must be an absolute path in its shortest form, without spaces, quotes and special characters of "+
					"a shell"))
			continue
		}
		for _, other := range named[:i] {
			if other.value != "" && nested(directory.value, other.value) {
				errs = append(errs, field.Invalid(at.Child(directory.name), directory.value,
					"must be neither "+other.name+" nor inside of it, nor contain it; choose a separate directory"))
			}
		}
	}
	return errs
}

func nested(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}

// validateRegistries rejects registries that cannot contain images. Nodes may accept some of them, but the agent inside
// the cluster could not be rendered.
func validateRegistries(config *provv1.RKEConfig, at *field.Path) field.ErrorList {
	errs := validateRegistry(config.MachineGlobalConfig.Data, at.Child("machineGlobalConfig"))
	for i, selected := range config.MachineSelectorConfig {
		errs = append(errs,
			validateRegistry(selected.Config.Data, at.Child("machineSelectorConfig").Index(i).Child("config"))...)
	}
	return errs
}

func validateRegistry(values map[string]any, at *field.Path) field.ErrorList {
	registry, given := values[registryKey].(string)
	if !given || registry == "" || naming.IsRegistry(registry) {
		return nil
	}
	// The configuration of existing machines stays. The value may contain a password.
	return field.ErrorList{field.Invalid(at.Child(registryKey), redact.Address(registry),
		naming.RegistryForm).WithOrigin(safeValue)}
}

func validateFiles(files []rkev1.RKEProvisioningFiles, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range files {
		for j, source := range files[i].FileSources {
			if source.Secret.Name != "" && source.ConfigMap.Name != "" {
				errs = append(errs, field.Forbidden(at.Index(i).Child("fileSources").Index(j),
					"has a secret and a configMap; use a separate entry for each"))
			}
		}
	}
	return errs
}

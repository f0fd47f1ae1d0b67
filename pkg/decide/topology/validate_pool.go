package topology

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/bootstrapdata"
	"github.com/drover-io/drover/pkg/decide/naming"
)

var unhealthyRange = regexp.MustCompile(`^\[[0-9]+-[0-9]+\]$`)

func validatePools(in Input, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	var absent []absence
	first := map[string]bool{}
	deployments := map[string]string{}
	for i := range pools(in.Cluster) {
		pool, here := &pools(in.Cluster)[i], at.Index(i)
		errs = append(errs, validatePoolName(in.Cluster, pool, here.Child("name"))...)
		if first[pool.Name] {
			errs = append(errs, field.Duplicate(here.Child("name"), pool.Name))
		}
		first[pool.Name] = true
		deployment := naming.MachineDeployment(in.Cluster.Name, pool.Name)
		if other, taken := deployments[deployment]; taken && other != pool.Name {
			errs = append(errs, field.Invalid(here.Child("name"), pool.Name,
				"has the same MachineDeployment name as pool "+other+"; choose another name"))
		}
		deployments[deployment] = pool.Name
		errs = append(errs, validatePoolRoles(in, pool, deployment, here)...)
		errs = append(errs, validatePoolSize(pool, here)...)
		errs = append(errs, validatePoolHealth(pool, here)...)
		ofBoot := validateFirstBoot(pool, here)
		if _, exists := in.Replicas[deployment]; exists && len(validation.IsValidLabelValue(pool.MachineOS)) == 0 {
			ofBoot = ofBoot.WithOrigin(safeValue) // existing machines stay; only new ones cannot be created
		}
		errs = append(errs, ofBoot...)
		errs = append(errs, validatePoolLabels(in.Cluster, pool, here)...)
		errs = append(errs, validateConfig(in, pool, here.Child("machineConfigRef"))...)
		absent = append(absent, absences(in, pool, here)...)
	}
	return append(append(errs, notFound(absent)...), validateRollOuts(in, at)...)
}

func validatePoolName(cluster *provv1.Cluster, pool *provv1.RKEMachinePool, at *field.Path) field.ErrorList {
	switch {
	case pool.Name == "":
		return field.ErrorList{field.Required(at, "give every machine pool a name")}
	case len(pool.Name) > naming.MaxLength:
		return field.ErrorList{field.Invalid(at, pool.Name, "is too long: choose a name of at most 63 characters")}
	case len(validation.IsDNS1123Subdomain(cluster.Name+"-"+pool.Name)) > 0 &&
		len(validation.IsDNS1123Label(cluster.Name)) == 0:
		return field.ErrorList{field.Invalid(at, pool.Name,
			"must consist of lower case letters, digits, dashes and dots, and end with a letter or digit")}
	case len(validation.IsValidLabelValue(pool.Name)) > 0:
		return field.ErrorList{field.Invalid(at, pool.Name, "must start and end with a letter or digit, because it "+
			"is a label of the machines")}
	default:
		return nil
	}
}

func validatePoolRoles(in Input, pool *provv1.RKEMachinePool, deployment string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if !pool.EtcdRole && !pool.ControlPlaneRole && !pool.WorkerRole {
		errs = append(errs,
			field.Required(at, "at least one role of etcd, control-plane or worker must be assigned to "+
				"machinePool ["+pool.Name+"]: set etcdRole, controlPlaneRole or workerRole to true"))
	}
	if in.all || len(errs) == 0 {
		errs = append(errs, validateKeptRoles(in, pool, deployment, at)...)
	}
	return errs
}

func validatePoolSize(pool *provv1.RKEMachinePool, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if pool.Quantity != nil && *pool.Quantity < 0 {
		errs = append(errs, field.Invalid(at.Child("quantity"), *pool.Quantity, "must not be negative"))
	}
	errs = append(errs, validateAutoscaling(pool, at)...)
	if limits := pool.RollingUpdate; limits != nil {
		errs = append(errs, validateCount(limits.MaxSurge, at.Child("rollingUpdate", "maxSurge"))...)
		errs = append(errs, validateCount(limits.MaxUnavailable, at.Child("rollingUpdate", "maxUnavailable"))...)
	}
	return errs
}

func validateAutoscaling(pool *provv1.RKEMachinePool, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	smallest, largest := pool.AutoscalingMinSize, pool.AutoscalingMaxSize
	if (smallest == nil) != (largest == nil) {
		errs = append(errs, field.Required(at.Child("autoscalingMinSize"),
			"AutoscalingMinSize and AutoscalingMaxSize must both be set if enabling cluster-autoscaling"))
	}
	if smallest != nil && largest != nil && *smallest > *largest {
		errs = append(errs, field.Invalid(at.Child("autoscalingMinSize"), *smallest,
			"must not be greater than autoscalingMaxSize"))
	}
	switch {
	case smallest != nil && *smallest < 1 && (pool.EtcdRole || pool.ControlPlaneRole):
		errs = append(errs, field.Invalid(at.Child("autoscalingMinSize"), *smallest,
			"must be greater than 0 for a pool with the etcd or control-plane role"))
	case smallest != nil && *smallest < 0:
		errs = append(errs, field.Invalid(at.Child("autoscalingMinSize"), *smallest, "must not be negative"))
	}
	return errs
}

func validateCount(count *intstr.IntOrString, at *field.Path) field.ErrorList {
	if count == nil {
		return nil
	}
	const remedy = "must be a number that is not negative, or a percentage such as 25%"
	if count.Type == intstr.Int {
		if count.IntVal < 0 {
			return field.ErrorList{field.Invalid(at, count.IntVal, remedy)}
		}
		return nil
	}
	number, isPercentage := strings.CutSuffix(count.StrVal, "%")
	if value, err := strconv.Atoi(number); err != nil || value < 0 || !isPercentage {
		return field.ErrorList{field.Invalid(at, count.StrVal, remedy)}
	}
	return nil
}

func validatePoolHealth(pool *provv1.RKEMachinePool, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if pool.MaxUnhealthy != nil && *pool.MaxUnhealthy != "" {
		parsed := intstr.Parse(*pool.MaxUnhealthy)
		errs = append(errs, validateCount(&parsed, at.Child("maxUnhealthy"))...)
	}
	return append(errs, validateRange(pool, at.Child("unhealthyRange"))...)
}

func validateRange(pool *provv1.RKEMachinePool, at *field.Path) field.ErrorList {
	if pool.UnhealthyRange == nil || *pool.UnhealthyRange == "" {
		return nil
	}
	text := *pool.UnhealthyRange
	lowest, _, _ := rangeOf(pool)
	switch {
	case !unhealthyRange.MatchString(text):
		return field.ErrorList{field.Invalid(at, text, "must look like [3-5]")}
	case unreadableRange(pool):
		return field.ErrorList{field.Invalid(at, text, "must begin with the smaller number, as [3-5] does").WithOrigin(
			safeValue)}
	case lowest > 1 && pool.EtcdRole && healthChecked(pool):
		return field.ErrorList{field.Invalid(at, text, "must begin with 0 or 1 for a pool with etcd: "+
			"a fixed minimum contradicts the quorum, which changes with the number of members").WithOrigin(safeValue)}
	}
	return nil
}

// unreadableRange reports whether a range has the right form but contains no number.
func unreadableRange(pool *provv1.RKEMachinePool) bool {
	_, _, ok := rangeOf(pool)
	return !ok && pool.UnhealthyRange != nil && unhealthyRange.MatchString(*pool.UnhealthyRange)
}

// The operating systems of pools. (docs/wire/capi.md#pools.)
const (
	linux   = "linux"
	windows = "windows"
)

// validateFirstBoot checks what machines run at their first start. It rejects all pools of Windows machines until their
// agent has an installer. Their Machines would wait for bootstrap data forever.
func validateFirstBoot(pool *provv1.RKEMachinePool, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch pool.MachineOS {
	case "", linux:
	case windows:
		errs = append(errs, field.Invalid(at.Child("machineOS"), pool.MachineOS,
			"must be linux or absent: Drover cannot provision Windows machines yet; remove pools that need windows"))
	default:
		errs = append(errs, field.Invalid(at.Child("machineOS"), pool.MachineOS,
			"must be linux or windows, in lower case"))
	}
	// A node driver's machines get their user data from the machine config. The pool's user data are for other
	// providers, and ignored here. (docs/wire/capi.md#pools.)
	if _, ours := configRef(pool); ours || pool.Userdata == nil {
		return errs
	}
	if err := bootstrapdata.CheckUserdata(pool.Userdata.InlineUserdata); err != nil {
		// The text is not shown, because it may contain passwords.
		errs = append(errs, field.Invalid(at.Child("userdata", "inlineUserdata"), field.OmitValueType{}, err.Error()))
	}
	return errs
}

// validatePoolLabels rejects labels with which Drover and Cluster API identify machines, unless they have the generated
// value.
func validatePoolLabels(cluster *provv1.Cluster, pool *provv1.RKEMachinePool, at *field.Path) field.ErrorList {
	generated := machineLabels(cluster, pool, naming.MachineDeployment(cluster.Name, pool.Name))
	var errs field.ErrorList
	for _, labels := range []struct {
		name   string
		values map[string]string
	}{{"labels", pool.Labels}, {"machineDeploymentLabels", pool.MachineDeploymentLabels}} {
		for _, key := range slices.Sorted(maps.Keys(labels.values)) {
			value, here := labels.values[key], at.Child(labels.name).Key(key)
			switch {
			case len(validation.IsQualifiedName(key)) > 0:
				errs = append(errs,
					field.Invalid(here, key,
						"must be a label key: an optional domain and /, then at most 63 letters, digits, - _ ."))
			case len(validation.IsValidLabelValue(value)) > 0:
				errs = append(errs,
					field.Invalid(here, value, "must be a label value: at most 63 letters, digits, - _ ."))
			case reservedLabel(key) && generated[key] != value:
				errs = append(errs, field.Forbidden(here,
					"Drover sets the labels of cluster.x-k8s.io/ and rke.cattle.io/ and cattle.io/os; remove it or "+
						"choose another key"))
			}
		}
	}
	for i, taint := range pool.Taints {
		here := at.Child("taints").Index(i)
		if len(validation.IsQualifiedName(taint.Key)) > 0 {
			errs = append(errs, field.Invalid(here.Child("key"), taint.Key, "must be a label key"))
		}
		switch taint.Effect {
		case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		default:
			errs = append(errs, field.NotSupported(here.Child("effect"), taint.Effect, []corev1.TaintEffect{
				corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute,
			}))
		}
	}
	return errs
}

// validateConfig checks the machine config of a pool.
func validateConfig(in Input, pool *provv1.RKEMachinePool, at *field.Path) field.ErrorList {
	if pool.NodeConfig == nil || pool.NodeConfig.Kind == "" || pool.NodeConfig.Name == "" {
		return field.ErrorList{field.Required(at, "invalid machinePool ["+pool.Name+"] missing name or valid config: "+
			"set kind and name of a machine config in the cluster's namespace")}
	}
	ref, ours := configRef(pool)
	if !ours {
		if group, version, ok := strings.Cut(ref.APIVersion, "/"); !ok || group == "" || version == "" {
			return field.ErrorList{field.Invalid(at.Child("apiVersion"), ref.APIVersion,
				"must be "+MachineConfigVersion+", or group and version of another infrastructure provider's template")}
		}
		return nil
	}
	if !strings.HasSuffix(ref.Kind, configSuffix) {
		return field.ErrorList{field.Invalid(at.Child("kind"), ref.Kind,
			"must be the kind of a node driver's machine config, for example Amazonec2Config")}
	}
	config, exists := in.MachineConfigs[ref]
	if in.alone || !exists {
		return nil // absences reports it
	}
	if _, err := TakeConfig(in.Cluster, config); err != nil {
		return field.ErrorList{field.Invalid(at.Child("name"), ref.Name, err.Error()+
			"; give each cluster machine configs of its own")}
	}
	return nil
}

package hold

import (
	"maps"
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/machinejob"
)

// may reports whether the change of a field may wait. nil is an absent field.
type may func(base, value any) bool

// urgent returns the first field whose change must not wait, or nothing. A field without a rule is urgent.
func urgent(k kind, c change) string {
	for _, path := range slices.Sorted(maps.Keys(c.fields)) {
		f := c.fields[path]
		if rule := rules[k][path]; rule == nil || !rule(f.base, f.value) {
			return path
		}
	}
	return ""
}

// waiting are reasons with which a condition says that something has not happened yet. Failures have other reasons.
var waiting = []string{
	clusterv1.NotReadyReason, clusterv1.ReadyUnknownReason, clusterv1.NotAvailableReason,
	clusterv1.AvailableUnknownReason, clusterv1.InspectionFailedReason,
	clusterv1.MachineWaitingForMinReadySecondsReason, clusterv1.MachineNodeNotReadyReason,
	clusterv1.MachineNodeNotHealthyReason,
	clusterv1.MachineDeploymentAvailableWaitingForAvailableReplicasSetReason, rkev1.ReasonWaiting,
	machinejob.ReasonCreating,
}

// rules are the changes that may wait, by kind and field. The package comment lists who reads what.
var rules = map[kind]map[string]may{
	machines: {
		"phase":                  becomes(clusterv1.MachinePhasePending, clusterv1.MachinePhaseProvisioning),
		"lastUpdated":            isSet,
		"observedGeneration":     isSet,
		"certificatesExpiryDate": isSet,
		// Hosts wait for the name of the Secret, which is in the spec.
		"initialization/bootstrapDataSecretCreated": isSet,

		current + clusterv1.MachineAvailableCondition:            isNotYet,
		current + clusterv1.MachineReadyCondition:                isNotYet,
		current + clusterv1.MachineBootstrapConfigReadyCondition: isNotYetOr(clusterv1.ReadyReason),
		current + clusterv1.MachineInfrastructureReadyCondition:  isNotYet,
		current + clusterv1.MachineNodeReadyCondition:            isNotYet,
		current + clusterv1.MachineNodeHealthyCondition:          isNotYet,
		current + clusterv1.MachineUpToDateCondition:             starts(clusterv1.MachineUpToDateReason),
		current + clusterv1.MachineDeletingCondition:             starts(clusterv1.MachineNotDeletingReason),
		current + clusterv1.MachineUpdatingCondition:             starts(clusterv1.MachineNotUpdatingReason),
		current + clusterv1.PausedCondition:                      starts(clusterv1.NotPausedReason),

		deprecated + string(clusterv1.ReadyV1Beta1Condition):               isSet,
		deprecated + string(clusterv1.BootstrapReadyV1Beta1Condition):      isSet,
		deprecated + string(clusterv1.InfrastructureReadyV1Beta1Condition): isSet,
		deprecated + string(clusterv1.MachineNodeHealthyV1Beta1Condition):  isSet,
	},
	machineSets: {
		"observedGeneration":  isSet,
		"selector":            isFirst,
		"replicas":            isSet,
		"availableReplicas":   isSet,
		"upToDateReplicas":    isSet,
		"readyReplicas":       isSet,
		"versions":            isSet,
		old + "readyReplicas": isSet, old + "availableReplicas": isSet, old + "fullyLabeledReplicas": isSet,

		current + clusterv1.MachineSetScalingUpCondition:        isSet,
		current + clusterv1.MachineSetScalingDownCondition:      isSet,
		current + clusterv1.MachineSetMachinesReadyCondition:    isSet,
		current + clusterv1.MachineSetMachinesUpToDateCondition: isSet,
		current + clusterv1.MachineSetRemediatingCondition:      starts(clusterv1.NotRemediatingReason),
		current + clusterv1.MachineSetDeletingCondition:         starts(clusterv1.NotDeletingReason),
		current + clusterv1.PausedCondition:                     starts(clusterv1.NotPausedReason),

		deprecated + string(clusterv1.ReadyV1Beta1Condition):           isSet,
		deprecated + string(clusterv1.MachinesCreatedV1Beta1Condition): isSet,
		deprecated + string(clusterv1.ResizedV1Beta1Condition):         isSet,
		deprecated + string(clusterv1.MachinesReadyV1Beta1Condition):   isSet,
	},
	deployments: {
		"observedGeneration":  isFirst,
		"selector":            isFirst,
		"replicas":            isMany,
		"readyReplicas":       isSet,
		"availableReplicas":   isSet,
		"upToDateReplicas":    isSet,
		"versions":            isSet,
		"phase":               isSet,
		old + "readyReplicas": isSet, old + "availableReplicas": isSet, old + "updatedReplicas": isSet,
		old + "unavailableReplicas": isSet,

		current + clusterv1.MachineDeploymentAvailableCondition:        isNotYet,
		current + clusterv1.MachineDeploymentMachinesReadyCondition:    isSet,
		current + clusterv1.MachineDeploymentMachinesUpToDateCondition: isSet,
		current + clusterv1.MachineDeploymentRollingOutCondition:       starts(clusterv1.NotRollingOutReason),
		current + clusterv1.MachineDeploymentScalingUpCondition:        isSet,
		current + clusterv1.MachineDeploymentScalingDownCondition:      isSet,
		current + clusterv1.MachineDeploymentRemediatingCondition:      starts(clusterv1.NotRemediatingReason),
		current + clusterv1.MachineDeploymentDeletingCondition:         starts(clusterv1.NotDeletingReason),
		current + clusterv1.PausedCondition:                            starts(clusterv1.NotPausedReason),

		deprecated + string(clusterv1.ReadyV1Beta1Condition):                      isSet,
		deprecated + string(clusterv1.MachineDeploymentAvailableV1Beta1Condition): isSet,
		deprecated + string(clusterv1.MachineSetReadyV1Beta1Condition):            isSet,
	},
	clusters: {
		"phase":              becomes(clusterv1.ClusterPhasePending, clusterv1.ClusterPhaseProvisioning),
		"observedGeneration": isSet,

		current + clusterv1.ClusterAvailableCondition:                    isNotYet,
		current + clusterv1.ClusterControlPlaneAvailableCondition:        isNotYet,
		current + clusterv1.ClusterInfrastructureReadyCondition:          isNotYet,
		current + clusterv1.ClusterWorkersAvailableCondition:             isSet,
		current + clusterv1.ClusterControlPlaneMachinesReadyCondition:    isSet,
		current + clusterv1.ClusterWorkerMachinesReadyCondition:          isSet,
		current + clusterv1.ClusterControlPlaneMachinesUpToDateCondition: isSet,
		current + clusterv1.ClusterWorkerMachinesUpToDateCondition:       isSet,
		current + clusterv1.ClusterScalingUpCondition:                    isSet,
		current + clusterv1.ClusterScalingDownCondition:                  isSet,
		current + clusterv1.ClusterControlPlaneInitializedCondition:      starts(notInitialized),
		current + clusterv1.ClusterRemoteConnectionProbeCondition:        isText,
		current + clusterv1.ClusterRollingOutCondition:                   starts(clusterv1.NotRollingOutReason),
		current + clusterv1.ClusterRemediatingCondition:                  starts(clusterv1.NotRemediatingReason),
		current + clusterv1.ClusterDeletingCondition:                     starts(clusterv1.NotDeletingReason),
		current + clusterv1.PausedCondition:                              starts(clusterv1.NotPausedReason),

		deprecated + string(clusterv1.ReadyV1Beta1Condition):                   isSet,
		deprecated + string(clusterv1.ControlPlaneReadyV1Beta1Condition):       isSet,
		deprecated + string(clusterv1.ControlPlaneInitializedV1Beta1Condition): isSet,
		deprecated + string(clusterv1.InfrastructureReadyV1Beta1Condition):     isSet,
	},
}

const (
	// old is where the numbers of the older API are.
	old            = "deprecated/v1beta1/"
	notInitialized = clusterv1.ClusterControlPlaneNotInitializedReason
)

// wakes returns the controllers that would be woken by the event of a change, and do their next step then. They are
// woken at once although the change waits: they read what is held.
func wakes(k kind, c change) []kind {
	var out []kind
	if _, changes := c.fields[current+clusterv1.PausedCondition]; changes {
		out = append(out, k) // Cluster API ends the reconcile that sets this condition
	}
	if k != machineSets {
		return out
	}
	for _, number := range []string{"replicas", "availableReplicas", "upToDateReplicas", "readyReplicas",
		"observedGeneration"} {
		if _, changes := c.fields[number]; changes {
			return append(out, deployments)
		}
	}
	return out
}

// init adds the numbers of a Cluster's machines, which are the same for both halves. It also adds maps that are empty
// for a time.
func init() {
	for _, k := range []kind{machines, machineSets, deployments, clusters} {
		rules[k]["deprecated"], rules[k]["deprecated/v1beta1"] = isEmptyMap, isEmptyMap
	}
	for _, half := range []string{"controlPlane/", "workers/"} {
		rules[clusters][strings.TrimSuffix(half, "/")] = isEmptyMap
		for _, number := range []string{"desiredReplicas", "replicas", "upToDateReplicas", "readyReplicas",
			"availableReplicas", "versions"} {
			rules[clusters][half+number] = isSet
		}
	}
}

// isSet lets each change wait that does not remove the field.
func isSet(_, value any) bool { return value != nil }

// isEmptyMap lets a map wait that becomes empty, or is empty no more.
func isEmptyMap(base, value any) bool {
	empty := func(v any) bool {
		m, ok := v.(map[string]any)
		return v == nil || ok && len(m) == 0
	}
	return empty(base) && empty(value)
}

// isFirst lets the first value of a field wait.
func isFirst(base, value any) bool { return base == nil && value != nil }

// isMany lets a number wait that neither was nor becomes zero.
func isMany(base, value any) bool {
	was, _ := base.(int64)
	is, _ := value.(int64)
	return was > 0 && is > 0
}

// becomes lets a text wait that becomes one of the values.
func becomes[T ~string](values ...T) may {
	return func(_, value any) bool {
		text, _ := value.(string)
		return slices.Contains(values, T(text))
	}
}

// isText lets a condition wait that keeps its status and its reason, for example a new message.
func isText(base, value any) bool {
	return base != nil && value != nil && read(base, "status") == read(value, "status") &&
		read(base, "reason") == read(value, "reason")
}

// isNotYet lets a condition wait that is not True before and after, as long as its reason is no failure.
func isNotYet(base, value any) bool {
	return isText(base, value) || value != nil && isQuiet(value) && (base == nil || isQuiet(base))
}

// isNotYetOr also lets such a condition wait that becomes True with that reason.
func isNotYetOr(reason string) may {
	return func(base, value any) bool {
		return isNotYet(base, value) || (base == nil || isQuiet(base)) && read(value, "status") == "True" &&
			read(value, "reason") == reason
	}
}

func isQuiet(condition any) bool {
	return read(condition, "status") != "True" && slices.Contains(waiting, read(condition, "reason"))
}

// starts lets a condition wait that gets its first value, which has that reason, and new texts.
func starts(reason string) may {
	return func(base, value any) bool {
		return isText(base, value) || base == nil && read(value, "reason") == reason
	}
}

func read(condition any, name string) string {
	m, _ := condition.(map[string]any)
	text, _ := m[name].(string)
	return text
}

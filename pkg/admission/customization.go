package admission

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation/field"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// customizations validates how agents are to be deployed. Drover copies these settings to the management Cluster, and a
// deployment with invalid ones would fail later. Package topology validates the budget of the cluster's agent, because
// a cluster cannot start with a wrong one. The schema validates single numbers. (docs/admission.md.)
func customizations(spec *provv1.ClusterSpec) field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("spec")
	for _, agent := range []struct {
		name string
		*provv1.AgentDeploymentCustomization
	}{
		{"clusterAgentDeploymentCustomization", spec.ClusterAgentDeploymentCustomization},
		{"fleetAgentDeploymentCustomization", spec.FleetAgentDeploymentCustomization},
	} {
		if agent.AgentDeploymentCustomization == nil {
			continue
		}
		here := at.Child(agent.name)
		errs = append(errs, tolerations(agent.AppendTolerations, here.Child("appendTolerations"))...)
		errs = append(errs, affinity(agent.OverrideAffinity, here.Child("overrideAffinity"))...)
		if scheduling := agent.SchedulingCustomization; scheduling != nil {
			errs = append(errs,
				priority(scheduling.PriorityClass, here.Child("schedulingCustomization", "priorityClass"))...)
			// Package topology validates that one.
			if agent.AgentDeploymentCustomization != spec.ClusterAgentDeploymentCustomization {
				errs = append(errs, topology.ValidateBudget(scheduling.PodDisruptionBudget,
					here.Child("schedulingCustomization", "podDisruptionBudget"))...)
			}
		}
	}
	if webhook := spec.WebhookDeploymentCustomization; webhook != nil {
		here := at.Child("webhookDeploymentCustomization")
		errs = append(errs, tolerations(webhook.AppendTolerations, here.Child("appendTolerations"))...)
		errs = append(errs, affinity(webhook.OverrideAffinity, here.Child("overrideAffinity"))...)
		errs = append(errs, topology.ValidateBudget(webhook.PodDisruptionBudget, here.Child("podDisruptionBudget"))...)
	}
	return errs
}

func tolerations(list []corev1.Toleration, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, toleration := range list {
		// Exists without a key tolerates everything.
		if toleration.Key != "" || toleration.Operator != corev1.TolerationOpExists {
			errs = append(errs, metavalidation.ValidateLabelName(toleration.Key, at.Index(i).Child("key"))...)
		}
	}
	return errs
}

func affinity(wanted *corev1.Affinity, at *field.Path) field.ErrorList {
	if wanted == nil {
		return nil
	}
	var errs field.ErrorList
	if node := wanted.NodeAffinity; node != nil {
		here := at.Child("nodeAffinity")
		if required := node.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
			for i, term := range required.NodeSelectorTerms {
				errs = append(errs,
					nodeTerm(term, here.Child("requiredDuringSchedulingIgnoredDuringExecution",
						"nodeSelectorTerms").Index(i))...)
			}
		}
		for i, preferred := range node.PreferredDuringSchedulingIgnoredDuringExecution {
			errs = append(errs,
				nodeTerm(preferred.Preference,
					here.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i).Child("preference"))...)
		}
	}
	if pods := wanted.PodAffinity; pods != nil {
		errs = append(errs, podTerms(pods.RequiredDuringSchedulingIgnoredDuringExecution,
			pods.PreferredDuringSchedulingIgnoredDuringExecution, at.Child("podAffinity"))...)
	}
	if pods := wanted.PodAntiAffinity; pods != nil {
		errs = append(errs, podTerms(pods.RequiredDuringSchedulingIgnoredDuringExecution,
			pods.PreferredDuringSchedulingIgnoredDuringExecution, at.Child("podAntiAffinity"))...)
	}
	return errs
}

// operators maps the operators of node selectors to those of label selectors.
var operators = map[corev1.NodeSelectorOperator]selection.Operator{
	corev1.NodeSelectorOpIn: selection.In, corev1.NodeSelectorOpNotIn: selection.NotIn,
	corev1.NodeSelectorOpExists:       selection.Exists,
	corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist, corev1.NodeSelectorOpGt: selection.GreaterThan,
	corev1.NodeSelectorOpLt: selection.LessThan,
}

func nodeTerm(term corev1.NodeSelectorTerm, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, expression := range term.MatchExpressions {
		here := at.Child("matchExpressions").Index(i)
		operator, known := operators[expression.Operator]
		if !known {
			errs = append(errs, field.Invalid(here.Child("operator"), expression.Operator,
				"must be In, NotIn, Exists, DoesNotExist, Gt or Lt"))
			continue
		}
		if _, err := labels.NewRequirement(expression.Key, operator, expression.Values,
			field.WithPath(here)); err != nil {
			errs = append(errs, field.Invalid(here, expression.Key, err.Error()))
		}
	}
	return errs
}

func podTerms(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm,
	at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range required {
		errs = append(errs,
			podTerm(&required[i], at.Child("requiredDuringSchedulingIgnoredDuringExecution").Index(i))...)
	}
	for i := range preferred {
		errs = append(errs,
			podTerm(&preferred[i].PodAffinityTerm,
				at.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i).Child("podAffinityTerm"))...)
	}
	return errs
}

func podTerm(term *corev1.PodAffinityTerm, at *field.Path) field.ErrorList {
	errs := metavalidation.ValidateLabelName(term.TopologyKey, at.Child("topologyKey"))
	for name, selector := range map[string]*metav1.LabelSelector{"labelSelector": term.LabelSelector,
		"namespaceSelector": term.NamespaceSelector} {
		errs = append(errs,
			metavalidation.ValidateLabelSelector(selector, metavalidation.LabelSelectorValidationOptions{},
				at.Child(name))...)
	}
	return errs
}

func priority(class *provv1.PriorityClassSpec, at *field.Path) field.ErrorList {
	if class == nil || class.PreemptionPolicy == nil {
		return nil
	}
	switch *class.PreemptionPolicy {
	case "", corev1.PreemptNever, corev1.PreemptLowerPriority:
		return nil
	}
	return field.ErrorList{field.NotSupported(at.Child("preemptionPolicy"), *class.PreemptionPolicy,
		[]corev1.PreemptionPolicy{corev1.PreemptNever, corev1.PreemptLowerPriority})}
}

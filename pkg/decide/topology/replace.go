package topology

import (
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/disruption"
)

// Replacement is a MachineDeployment whose machines Cluster API replaces when it gets its new template.
type Replacement struct {
	// Deployment is the existing MachineDeployment.
	Deployment *clusterv1.MachineDeployment
	// Template is the name of the new machine template, or of the new bootstrap template where that is the change.
	Template string
	// Machines is the number of machines.
	Machines int
	// Cause is the cause of the replacement.
	Cause disruption.Cause
}

// Replacements compares the existing MachineDeployments with the desired ones. template returns an existing machine
// template of Drover, nil when it does not exist.
func Replacements(existing []*clusterv1.MachineDeployment, desired []runtime.Object,
	template func(clusterv1.ContractVersionedObjectReference) *unstructured.Unstructured,
) []Replacement {
	were := map[string]*clusterv1.MachineDeployment{}
	for _, deployment := range existing {
		were[deployment.Namespace+"/"+deployment.Name] = deployment
	}
	templates := map[string]*unstructured.Unstructured{}
	var out []Replacement
	for _, object := range desired {
		switch o := object.(type) {
		case *unstructured.Unstructured:
			templates[o.GetKind()+"/"+o.GetName()] = o
		case *clusterv1.MachineDeployment:
			was := were[o.Namespace+"/"+o.Name]
			if was == nil || was.Spec.Replicas == nil || *was.Spec.Replicas == 0 {
				continue
			}
			before, after := was.Spec.Template.Spec, o.Spec.Template.Spec
			replaced := Replacement{Deployment: was, Machines: int(*was.Spec.Replicas), Cause: disruption.EditPool}
			switch {
			case before.InfrastructureRef != after.InfrastructureRef:
				replaced.Template = after.InfrastructureRef.Name
				if after.InfrastructureRef.APIGroup == machineGroup {
					replaced.Cause = templateCause(template(before.InfrastructureRef),
						templates[after.InfrastructureRef.Kind+"/"+after.InfrastructureRef.Name])
				}
			case before.Bootstrap.ConfigRef != after.Bootstrap.ConfigRef:
				// The name follows only from the pool's user data. On Drover's own infrastructure it never changes.
				replaced.Template = after.Bootstrap.ConfigRef.Name
				if after.InfrastructureRef.APIGroup == machineGroup {
					replaced.Cause = disruption.Unknown
				}
			default:
				continue
			}
			out = append(out, replaced)
		}
	}
	return out
}

// templateCause is why a machine template has another name. Its content is a copy of the user's machine config, so the
// user has edited or replaced the config. The same content under another name is a change by Drover.
func templateCause(before, after *unstructured.Unstructured) disruption.Cause {
	if after == nil {
		return disruption.Unknown
	}
	if before == nil {
		return disruption.EditPool // the template was deleted, or the pool was on other infrastructure
	}
	for _, key := range []string{rkev1.ClonedFromGroupVersionAnnotation, rkev1.ClonedFromKindAnnotation,
		rkev1.ClonedFromNameAnnotation} {
		if before.GetAnnotations()[key] != after.GetAnnotations()[key] {
			return disruption.EditPool
		}
	}
	if reflect.DeepEqual(contentOf(before), contentOf(after)) {
		return disruption.Unknown
	}
	return disruption.EditPool
}

// contentOf is the part of a machine template that determines its name.
func contentOf(template *unstructured.Unstructured) map[string]any {
	content, _, err := unstructured.NestedMap(template.Object, "spec", "template", "spec")
	if err != nil {
		return nil
	}
	delete(content, "common")
	return content
}

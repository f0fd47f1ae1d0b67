package topology

import (
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/disruption"
)

// Replacement is a MachineDeployment whose machines Cluster API replaces once it has its new template.
type Replacement struct {
	// Deployment is the one that exists.
	Deployment *clusterv1.MachineDeployment
	// Template is the name of the new template of machines, or of bootstraps where that is what changes.
	Template string
	// Machines is how many there are.
	Machines int
	// Cause is why.
	Cause disruption.Cause
}

// Replacements compares the MachineDeployments that exist with those of the desired objects. template returns a machine template of ours
// that exists, nil when it does not.
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
					replaced.Cause = templateCause(template(before.InfrastructureRef), templates[after.InfrastructureRef.Kind+"/"+after.InfrastructureRef.Name])
				}
			case before.Bootstrap.ConfigRef != after.Bootstrap.ConfigRef:
				// Its name follows from the pool's user data alone, and on our own infrastructure it never changes.
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

// templateCause is why a template of machines has another name: its content is a copy of the user's machine config, so the user has edited
// that, or chosen another. The same content under another name is our doing.
func templateCause(before, after *unstructured.Unstructured) disruption.Cause {
	if after == nil {
		return disruption.Unknown
	}
	if before == nil {
		return disruption.EditPool // somebody has deleted it, or the pool was on infrastructure of another kind
	}
	for _, key := range []string{rkev1.ClonedFromGroupVersionAnnotation, rkev1.ClonedFromKindAnnotation, rkev1.ClonedFromNameAnnotation} {
		if before.GetAnnotations()[key] != after.GetAnnotations()[key] {
			return disruption.EditPool
		}
	}
	if reflect.DeepEqual(contentOf(before), contentOf(after)) {
		return disruption.Unknown
	}
	return disruption.EditPool
}

// contentOf is what of a template of machines decides its name.
func contentOf(template *unstructured.Unstructured) map[string]any {
	content, _, err := unstructured.NestedMap(template.Object, "spec", "template", "spec")
	if err != nil {
		return nil
	}
	delete(content, "common")
	return content
}

package crds

import (
	"encoding/json"
	"maps"
	"reflect"
	"strconv"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/labels"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// marked returns a copy of a definition with Drover's marks and the API server's defaults.
func marked(crd *apiextv1.CustomResourceDefinition, generation int) *apiextv1.CustomResourceDefinition {
	out := crd.DeepCopy()
	if out.Labels == nil {
		out.Labels = map[string]string{}
	}
	out.Labels[rkev1.ManagedByLabel] = rkev1.ManagedByDrover
	out.Labels[rkev1.CRDVersionLabel] = strconv.Itoa(generation)
	out.Labels[rkev1.BackupLabel] = "true" // all objects of the kind
	out.Labels[rkev1.ClusterctlLabel] = ""
	apiextv1.SetDefaults_CustomResourceDefinition(out)
	apiextv1.SetDefaults_CustomResourceDefinitionSpec(&out.Spec)
	return out
}

// merge sets the wanted spec, labels and annotations in the current definition, and reports whether that changes
// anything. Labels and annotations of others stay.
func merge(current, wanted *apiextv1.CustomResourceDefinition) (*apiextv1.CustomResourceDefinition, bool, error) {
	out := current.DeepCopy()
	out.Spec = *wanted.Spec.DeepCopy()
	out.Labels = labels.Merge(current.Labels, wanted.Labels)
	out.Annotations = labels.Merge(current.Annotations, wanted.Annotations)
	same, err := sameJSON(current.Spec, out.Spec)
	if err != nil {
		return nil, false, err
	}
	changed := !same || !maps.Equal(current.Labels, out.Labels) || !maps.Equal(current.Annotations, out.Annotations)
	return out, changed, nil
}

// sameJSON compares specs by their meaning. Their defaults and enums are raw JSON, whose spacing differs between the
// file and the API server's answer.
func sameJSON(a, b apiextv1.CustomResourceDefinitionSpec) (bool, error) {
	left, err := generic(a)
	if err != nil {
		return false, err
	}
	right, err := generic(b)
	if err != nil {
		return false, err
	}
	return reflect.DeepEqual(left, right), nil
}

func generic(value any) (out any, err error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	err = json.Unmarshal(data, &out)
	return out, err
}

package charts

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/kube/capi"
)

// definitionsOf returns the CRDs in the chart drover-crd by name. All of them stay when the chart is uninstalled.
func definitionsOf(t *testing.T, values map[string]any) map[string]*apiextv1.CustomResourceDefinition {
	t.Helper()
	objects, err := Objects(crdChart, Release{Name: "drover-crd"}, values)
	check(t, err)
	out := map[string]*apiextv1.CustomResourceDefinition{}
	for _, object := range objects {
		definition := &apiextv1.CustomResourceDefinition{}
		check(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, definition, true))
		out[definition.Name] = definition
		if definition.Annotations["helm.sh/resource-policy"] != "keep" {
			t.Errorf("%s would be deleted with the chart, and with it all objects of its kind", definition.Name)
		}
		if definition.Labels["app.kubernetes.io/part-of"] != "drover" {
			t.Errorf("%s has no labels of the chart: %v", definition.Name, definition.Labels)
		}
	}
	return out
}

// TestDefinitions_MatchTheServer: the chart installs the same CRDs as the server.
func TestDefinitions_MatchTheServer(t *testing.T) {
	own, err := crds.All()
	check(t, err)
	core, err := capi.Definitions()
	check(t, err)
	for name, tc := range map[string]struct {
		values map[string]any
		want   []*apiextv1.CustomResourceDefinition
	}{
		"with Cluster API": {values: map[string]any{"commonLabels": map[string]any{"a": "b"},
			"commonAnnotations": map[string]any{"c": "d"}}, want: slices.Concat(own, core)},
		"without Cluster API": {values: map[string]any{"clusterAPI": false}, want: own},
	} {
		t.Run(name, func(t *testing.T) {
			got := definitionsOf(t, tc.values)
			var names []string
			for _, want := range tc.want {
				names = append(names, want.Name)
				if have := got[want.Name]; have != nil {
					compare(t, want, have)
				}
			}
			slices.Sort(names)
			if diff := cmp.Diff(names, slices.Sorted(maps.Keys(got))); diff != "" {
				t.Errorf("definitions (-server +chart); run scripts/generate:\n%s", diff)
			}
		})
	}
}

// compare fails unless the chart's CRD has the spec of the server's, and at least its labels and annotations.
func compare(t *testing.T, want, got *apiextv1.CustomResourceDefinition) {
	t.Helper()
	if diff := cmp.Diff(generic(t, want.Spec), generic(t, got.Spec)); diff != "" {
		t.Errorf("%s differs from the server's; run scripts/generate:\n%s", want.Name, diff)
	}
	for key, value := range want.Labels {
		if got.Labels[key] != value {
			t.Errorf("%s: label %s is %q, want %q", want.Name, key, got.Labels[key], value)
		}
	}
	for key, value := range want.Annotations {
		if got.Annotations[key] != value {
			t.Errorf("%s: annotation %s is %q, want %q", want.Name, key, got.Annotations[key], value)
		}
	}
}

// generic returns a value without the whitespace of its raw JSON.
func generic(t *testing.T, value any) (out any) {
	t.Helper()
	text, err := json.Marshal(value)
	check(t, err)
	check(t, json.Unmarshal(text, &out))
	return out
}

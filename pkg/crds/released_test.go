package crds_test

import (
	"os"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/kube/capi"
)

// released lists the versions that releases have served and stored, by definition. Objects may be stored in every
// stored version, and manifests written in every served one.
type released map[string]struct {
	Served []string `json:"served"`
	Stored []string `json:"stored"`
}

// TestReleasedVersionsRemain fails if a definition is missing, or a version that a release has served or stored. The
// API server could no longer read such objects. A release that adds versions adds them to testdata/released.yaml. Never
// remove any.
func TestReleasedVersionsRemain(t *testing.T) {
	text, err := os.ReadFile("testdata/released.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var before released
	if err := yaml.UnmarshalStrict(text, &before); err != nil {
		t.Fatal(err)
	}
	all, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	core, err := capi.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, crd := range append(all, core...) {
		known[crd.Name] = true
		was, ok := before[crd.Name]
		if !ok {
			t.Errorf("%s is not in testdata/released.yaml; add it", crd.Name)
			continue
		}
		var served []string
		for i := range crd.Spec.Versions {
			version := &crd.Spec.Versions[i]
			if version.Served {
				served = append(served, version.Name)
			}
			if version.Storage && !slices.Contains(was.Stored, version.Name) {
				t.Errorf("%s stores %s, which is not in testdata/released.yaml; add it to stored, and to served",
					crd.Name, version.Name)
			}
		}
		for _, version := range slices.Concat(was.Served, was.Stored) {
			if !slices.Contains(served, version) {
				t.Errorf("%s serves %v, but objects and manifests of a release have %s", crd.Name, served, version)
			}
		}
	}
	for name := range before {
		if !known[name] {
			t.Errorf("%s is missing; objects of a release would be unreadable", name)
		}
	}
}

package render_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// TestLargest_NamesTheObjectThatWritesTheFile checks that files belong to the object that the source names. The
// result is stored in a condition and must be stable.
func TestLargest_NamesTheObjectThatWritesTheFile(t *testing.T) {
	t.Parallel()
	items := []rkev1.KeyToPath{{Key: "k", Path: "/etc/large"}}
	spec := &rkev1.RKEControlPlaneSpec{}
	spec.MachineSelectorFiles = []rkev1.RKEProvisioningFiles{{FileSources: []rkev1.ProvisioningFileSource{{
		Secret: rkev1.K8sObjectFileSource{Items: items}, ConfigMap: rkev1.K8sObjectFileSource{Name: "files",
			Items: items},
	}}}}
	large := plan.NodePlan{Files: []plan.File{{Path: "/etc/large", Content: strings.Repeat("x", 20<<10)}}}
	want := []string{"spec.rkeConfig.machineSelectorFiles[0].fileSources[0].configMap.items[0] (20 KiB)"}
	for range 20 {
		if diff := cmp.Diff(want, render.Largest(spec, large, 3)); diff != "" {
			t.Fatalf("largest parts (-want +got):\n%s", diff)
		}
	}
}

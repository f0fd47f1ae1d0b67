package planner

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// A field of the spec is in fieldCauses, or no plan depends on it. Without its cause, a restart for it would count as
// unknown.
func TestFieldCauses_CoverTheSpec(t *testing.T) {
	withoutPlans := []string{
		// identities, which never change
		"clusterName", "managementClusterName",
		// the order of changes
		"upgradeStrategy",
		// operations, which have causes of their own
		"etcdSnapshotCreate", "etcdSnapshotRestore", "rotateCertificates", "rotateEncryptionKeys",
	}
	fields := map[string]bool{}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[rkev1.RKEControlPlaneSpec]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			continue // an embedded struct
		}
		fields[name] = true
		if _, planned := fieldCauses[name]; planned == slices.Contains(withoutPlans, name) {
			t.Errorf("spec.%s must have a cause in fieldCauses, or be listed here as a field that no plan depends on",
				name)
		}
	}
	for name := range fieldCauses {
		if !fields[name] {
			t.Errorf("fieldCauses has %q, which is no field of the spec", name)
		}
	}
}

package topology

import (
	"encoding/json"
	"fmt"
	"slices"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// Prepare completes a Cluster before Drover acts on it. It adds the ownership mark, the annotation that blocks
// "clusterctl move" until the mark is removed, and the finalizers that protect its children. It also adds the name for
// lists, and a copy of the driver's schema in each pool. It returns a changed copy, or nil when nothing is missing, so
// that a new cluster costs one write.
//
// A pool keeps its copy when the driver's schema changes, so that an upgraded driver does not replace machines.
// (docs/wire/machines.md#from-flags-to-kinds.) Prepare skips missing schemas; Validate reports them.
func Prepare(cluster *provv1.Cluster, instanceID string, schemas map[string]*mgmtv3.DynamicSchemaSpec) (*provv1.Cluster,
	error) {
	prepared := cluster.DeepCopy()
	changed := setAnnotation(prepared, rkev1.InstanceAnnotation, instanceID)
	changed = setAnnotation(prepared, provv1.ManagementClusterDisplayNameAnnotation, cluster.Name) || changed
	changed = setAnnotation(prepared, rkev1.BlockMoveAnnotation, "true") || changed
	for _, finalizer := range []string{provv1.ProvisioningClusterFinalizer, provv1.RKEClusterFinalizer} {
		if !slices.Contains(prepared.Finalizers, finalizer) {
			prepared.Finalizers = append(prepared.Finalizers, finalizer)
			changed = true
		}
	}
	filled, err := fillSchemas(prepared, schemas)
	if err != nil {
		return nil, err
	}
	if !changed && !filled {
		return nil, nil
	}
	return prepared, nil
}

func fillSchemas(cluster *provv1.Cluster, schemas map[string]*mgmtv3.DynamicSchemaSpec) (bool, error) {
	filled := false
	for i := range pools(cluster) {
		pool := &pools(cluster)[i]
		ref, ours := configRef(pool)
		if !ours {
			continue
		}
		if _, has := poolSchema(pool); has {
			continue
		}
		spec, exists := schemas[ref.SchemaName()]
		if !exists {
			continue
		}
		encoded, err := json.Marshal(spec)
		if err != nil {
			return false, fmt.Errorf("encode dynamic schema %s: %w", ref.SchemaName(), err)
		}
		pool.DynamicSchemaSpec = string(encoded)
		filled = true
	}
	return filled, nil
}

func setAnnotation(cluster *provv1.Cluster, key, value string) bool {
	if cluster.Annotations[key] == value {
		return false
	}
	if cluster.Annotations == nil {
		cluster.Annotations = map[string]string{}
	}
	cluster.Annotations[key] = value
	return true
}

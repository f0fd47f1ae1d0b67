package topology

import (
	"encoding/json"
	"fmt"
	"slices"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// Prepare completes a Cluster that is about to be acted on: the ownership mark,
// with what holds "clusterctl move" until the mark is given up, the finalizers that protect its children, the name that lists show, and in
// each pool a copy of its driver's schema. It returns a changed copy, or nil
// when nothing is missing, so that a new cluster costs one write.
//
// A pool keeps the copy it has, whatever the driver's schema is now: that is
// what keeps an upgraded driver from replacing machines. (docs/wire/machines.md#from-flags-to-kinds.) Schemas
// that do not exist are left out; Validate reports them.
func Prepare(cluster *provv1.Cluster, instanceID string, schemas map[string]*mgmtv3.DynamicSchemaSpec) (*provv1.Cluster, error) {
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

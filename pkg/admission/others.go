package admission

import (
	"fmt"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// Protected reports whether an annotation protects the object against deletion.
func Protected(annotations map[string]string) bool {
	return annotations[rkev1.ProtectAnnotation] == "true"
}

// protectNamespace refuses to delete a namespace that contains a protected cluster, because the deletion cannot be
// undone.
func protectNamespace(r Request, a *Answer) error {
	for _, cluster := range r.Facts.Clusters {
		if cluster.Namespace == r.Name && Protected(cluster.Annotations) {
			a.forbid(fmt.Sprintf("namespace %s has a protected cluster: remove annotation %s from Cluster %s first",
				r.Name, rkev1.ProtectAnnotation, cluster.Name))
			return nil
		}
	}
	return nil
}

// protectUsedDriver refuses to deactivate or delete a driver that machines use, because Drover could not remove their
// hosts. (docs/admission.md.)
func protectUsedDriver(r Request, a *Answer) error {
	before, after, err := decodeBoth[mgmtv3.NodeDriver](r)
	if err != nil || !before.Spec.Active || after != nil && after.Spec.Active {
		return err
	}
	kind := driverschema.MachineKind(driverschema.DisplayName(before))
	for _, machine := range r.Facts.Machines {
		if ref := machine.Spec.InfrastructureRef; ref.APIGroup != driverschema.MachineGroup ||
			!strings.EqualFold(ref.Kind, kind) {
			continue
		}
		message := fmt.Sprintf("machines of this driver exist, such as %s/%s: delete them first", machine.Namespace,
			machine.Name)
		if after == nil {
			a.forbid(message)
		} else {
			a.refuse(field.Forbidden(field.NewPath("spec", "active"), message))
		}
		return nil
	}
	return nil
}

// checkPlan refuses a plan that the machine's agent cannot read. (docs/admission.md.)
func checkPlan(r Request, a *Answer) error {
	secret, err := decode[corev1.Secret](r.New)
	if err != nil || secret.Type != rkev1.SecretTypeMachinePlan || len(secret.Data[nodeplan.KeyPlan]) == 0 {
		return err
	}
	if _, err := nodeplan.Decode(secret.Data[nodeplan.KeyPlan]); err != nil {
		// The error omits the plan, because it may contain secrets.
		a.refuse(field.Invalid(field.NewPath("data").Key(nodeplan.KeyPlan), field.OmitValueType{},
			"must be a plan, as JSON"))
	}
	return nil
}

// warnAboutScaling warns users who scale a MachineDeployment, because Drover restores the size that the pool has. Pools
// without a fixed size, such as those of autoscalers, adopt the new size and cause no warning.
func warnAboutScaling(r Request, a *Answer) error {
	scale, err := decode[autoscalingv1.Scale](r.New)
	if err != nil {
		return err
	}
	for _, cluster := range r.Facts.Clusters {
		if cluster.Namespace != r.Namespace || cluster.Spec.RKEConfig == nil || !ours(r.Facts, cluster, cluster) {
			continue
		}
		for i := range cluster.Spec.RKEConfig.MachinePools {
			pool := &cluster.Spec.RKEConfig.MachinePools[i]
			if naming.MachineDeployment(cluster.Name, pool.Name) != r.Name || pool.AutoscalingMinSize != nil ||
				pool.Quantity == nil || *pool.Quantity == scale.Spec.Replicas {
				continue
			}
			a.warn(fmt.Sprintf("spec.rkeConfig.machinePools[%d].quantity of Cluster %s is %d, and Drover restores "+
				"that size of the MachineDeployment: change the quantity instead", i, cluster.Name, *pool.Quantity))
			return nil
		}
	}
	return nil
}

// restoreSchemas restores the copies of drivers' schemas in pools when an update omits them, as manifests without these
// fields do. Without the copies, Drover would recreate the machines with the fields of the driver's current schema.
// (docs/admission.md.)
func restoreSchemas(r Request, a *Answer) error {
	before, after, err := decodeBoth[provv1.Cluster](r)
	if err != nil || !isChecked(r.Facts, before, after) ||
		after.Annotations[provv1.AllowDynamicSchemaDropAnnotation] == "true" ||
		before.Spec.RKEConfig == nil || after.Spec.RKEConfig == nil {
		return err
	}
	had := map[string]*provv1.RKEMachinePool{}
	for i := range before.Spec.RKEConfig.MachinePools {
		had[before.Spec.RKEConfig.MachinePools[i].Name] = &before.Spec.RKEConfig.MachinePools[i]
	}
	for i := range after.Spec.RKEConfig.MachinePools {
		pool := &after.Spec.RKEConfig.MachinePools[i]
		old := had[pool.Name]
		if old != nil && pool.DynamicSchemaSpec == "" && old.DynamicSchemaSpec != "" &&
			driverOf(old) == driverOf(pool) {
			a.Patches = append(a.Patches, Patch{
				Op: "add", Path: fmt.Sprintf("/spec/rkeConfig/machinePools/%d/dynamicSchemaSpec", i),
				Value: old.DynamicSchemaSpec,
			})
		}
	}
	return nil
}

// driverOf returns the kind of a pool's machine config, which identifies its driver.
func driverOf(pool *provv1.RKEMachinePool) string {
	if pool.NodeConfig == nil {
		return ""
	}
	return pool.NodeConfig.APIVersion + "/" + pool.NodeConfig.Kind
}

package admission

import (
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// sharedGroups are the groups of kinds that every cluster needs. Only some clusters need the kinds of drivers, in the
// groups driverschema.MachineGroup and driverschema.ConfigGroup. In management.cattle.io, which Rancher uses too, every
// cluster needs managementKinds.
var (
	sharedGroups    = []string{"provisioning.cattle.io", "rke.cattle.io", "cluster.x-k8s.io"}
	managementKinds = []string{"Cluster", "ClusterRegistrationToken", "NodeDriver", "DynamicSchema",
		"PodSecurityAdmissionConfigurationTemplate"}
)

// protectDefinition refuses to delete the definition of a kind that a protected cluster needs, whichever instance
// manages it. The API server deletes all objects of the kind with the definition, without admission. Drover deletes the
// definitions of a driver itself when no object of them is left, which excludes every cluster with pools or machines of
// the driver.
func protectDefinition(r Request, a *Answer) error {
	definition, err := decode[apiextensionsv1.CustomResourceDefinition](r.Old)
	if err != nil {
		return err
	}
	var needed string
	for _, cluster := range r.Facts.Clusters {
		if name := cluster.Namespace + "/" + cluster.Name; Protected(cluster.Annotations) &&
			needs(r.Facts, cluster, definition) && (needed == "" || name < needed) {
			needed = name
		}
	}
	if needed != "" {
		a.forbid(fmt.Sprintf("the deletion also deletes all objects of kind %s, and protected Cluster %s needs them: "+
			"remove annotation %s from that Cluster first",
			definition.Spec.Names.Kind, needed, rkev1.ProtectAnnotation))
	}
	return nil
}

// needs reports whether a cluster has, or is made from, objects of the defined kind.
func needs(facts Facts, cluster *provv1.Cluster, definition *apiextensionsv1.CustomResourceDefinition) bool {
	switch group := definition.Spec.Group; group {
	case driverschema.MachineGroup, driverschema.ConfigGroup:
	case "management.cattle.io":
		return slices.Contains(managementKinds, definition.Spec.Names.Kind)
	default:
		return slices.Contains(sharedGroups, group)
	}
	driver := driverschema.Stem(definition.Spec.Names.Kind)
	for _, ref := range topology.ConfigRefs(cluster) {
		if driverschema.Stem(ref.Kind) == driver {
			return true
		}
	}
	for _, machine := range facts.Machines {
		ref := machine.Spec.InfrastructureRef
		if machine.Namespace == cluster.Namespace && machine.Spec.ClusterName == cluster.Name &&
			ref.APIGroup == driverschema.MachineGroup && driverschema.Stem(ref.Kind) == driver {
			return true
		}
	}
	return false
}

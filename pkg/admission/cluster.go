package admission

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/topology"
)

// validCluster refuses what the controller would not act on. (spec/01 Part E.1.)
func validCluster(r Request, a *Answer) error {
	before, after, err := decodeBoth[provv1.Cluster](r)
	if err != nil {
		return err
	}
	if !judged(r.Facts, before, after) {
		return nil
	}
	wrong := problems(r.Facts, after)
	if before != nil {
		kept := problems(r.Facts, before)
		tolerated := func(e *field.Error) bool {
			return slices.ContainsFunc(kept, func(k *field.Error) bool { return k.Error() == e.Error() })
		}
		for _, e := range wrong {
			if tolerated(e) {
				a.warn(e.Error())
			}
		}
		wrong = slices.DeleteFunc(wrong, tolerated)
	}
	a.refuse(wrong...)
	return nil
}

// judged reports that what is wanted of a Cluster of ours is new.
func judged(facts Facts, before, after *provv1.Cluster) bool {
	return ours(facts, before, after) && (before == nil || !equality.Semantic.DeepEqual(before.Spec, after.Spec))
}

// ours reports that a Cluster belongs to this Drover, or is about to, and stays.
func ours(facts Facts, before, after *provv1.Cluster) bool {
	if after.DeletionTimestamp != nil {
		return false
	}
	switch mark := after.Annotations[rkev1.InstanceAnnotation]; {
	case mark != "":
		return mark == facts.InstanceID
	case before == nil:
		return true
	default:
		// Nobody has claimed it yet. What carries a finalizer and no mark is another manager's.
		return before.Annotations[rkev1.InstanceAnnotation] == facts.InstanceID || len(before.Finalizers) == 0
	}
}

// problems are what the controller would find wrong, as far as can be told now.
func problems(facts Facts, cluster *provv1.Cluster) field.ErrorList {
	in := topology.Input{Cluster: cluster, Etcd: map[string]bool{}}
	if !facts.Known {
		// Machines that nobody has counted may be servers.
		in.Registered = topology.Servers{Etcd: true, ControlPlane: true}
	}
	for _, machine := range facts.Machines {
		if machine.Namespace != cluster.Namespace || machine.Spec.ClusterName != cluster.Name || machine.DeletionTimestamp != nil {
			continue
		}
		count(&in, machine)
	}
	return topology.ValidateAlone(in)
}

// count adds a machine of the cluster, as the controller does.
func count(in *topology.Input, machine *clusterv1.Machine) {
	etcd := machine.Labels[rkev1.EtcdRoleLabel] == rkev1.RoleLabelValue
	if deployment := machine.Labels[clusterv1.MachineDeploymentNameLabel]; deployment != "" && etcd {
		in.Etcd[deployment] = true
	}
	if machine.Labels[rkev1.MachinePoolNameLabel] == "" {
		in.Registered.Etcd = in.Registered.Etcd || etcd
		in.Registered.ControlPlane = in.Registered.ControlPlane || machine.Labels[rkev1.ControlPlaneRoleLabel] == rkev1.RoleLabelValue
	}
}

package admission

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// checkCluster refuses a Cluster that the controller would not act on. For a released Cluster it only warns: the
// cluster is running, and its user cannot correct it in the middle of a restore or a move. (docs/admission.md.)
func checkCluster(r Request, a *Answer) error {
	before, after, err := decodeBoth[provv1.Cluster](r)
	if err != nil {
		return err
	}
	if !isChecked(r.Facts, before, after) {
		return nil
	}
	released := Released(before, after)
	if released {
		r.Facts.Known = false // its machines are restored after it
	}
	wrong := problems(r.Facts, after, topology.ValidateAlone)
	var old field.ErrorList
	switch {
	case before != nil:
		wrong, old = topology.News(topology.Wrong{Cluster: before,
			Errors: problems(r.Facts, before, topology.ValidateBefore)}, topology.Wrong{Cluster: after, Errors: wrong})
	case released:
		wrong, old = nil, wrong
	}
	for _, e := range old {
		a.warn(e.Error())
	}
	a.refuse(wrong...)
	return nil
}

// isChecked reports whether the request creates a Cluster of this instance, or changes the spec of one.
func isChecked(facts Facts, before, after *provv1.Cluster) bool {
	return ours(facts, before, after) && (before == nil || !equality.Semantic.DeepEqual(before.Spec, after.Spec))
}

// ours is Ours with the facts' instance.
func ours(facts Facts, before, after *provv1.Cluster) bool {
	return Ours(facts.InstanceID, before, after)
}

// problems returns what the controller would refuse, as far as admission can know it. It includes what the receivers of
// the Cluster's settings would refuse.
func problems(facts Facts, cluster *provv1.Cluster, validate func(topology.Input) field.ErrorList) field.ErrorList {
	in := topology.Input{Cluster: cluster, Roles: map[string]topology.Servers{}, Replicas: map[string]int32{}}
	if !facts.Known {
		// Machines that are not counted yet may be servers.
		in.Registered = topology.Servers{Etcd: true, ControlPlane: true}
	}
	for _, machine := range facts.Machines {
		if machine.Namespace != cluster.Namespace || machine.Spec.ClusterName != cluster.Name ||
			machine.DeletionTimestamp != nil {
			continue
		}
		count(&in, machine)
	}
	wrong := validate(in)
	if cluster.Spec.RKEConfig != nil {
		wrong = append(wrong, customizations(&cluster.Spec)...)
	}
	return wrong
}

// count adds a machine of the cluster, as the controller does.
func count(in *topology.Input, machine *clusterv1.Machine) {
	roles := topology.RolesOf(machine.Labels)
	if deployment := machine.Labels[clusterv1.MachineDeploymentNameLabel]; deployment != "" {
		in.Roles[deployment] = roles.And(in.Roles[deployment])
		in.Replicas[deployment]++
	}
	if machine.Labels[rkev1.MachinePoolNameLabel] == "" {
		in.Registered = roles.And(in.Registered)
		if roles.Etcd {
			in.RegisteredMembers++
		}
	}
}

package provisioningcluster

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// Reader gathers the same facts as the controller, for programs that preview an edit. It writes nothing.
type Reader struct{ handler *handler }

// NewReader returns a Reader. It needs the caches of the Deps, and DynamicKinds to read objects.
func NewReader(d Deps) *Reader { return &Reader{newHandler(d)} }

// Input returns the facts that determine the objects of a cluster.
func (r *Reader) Input(cluster *provv1.Cluster) (topology.Input, error) {
	in := topology.Input{Cluster: cluster}
	for _, gather := range []func(*topology.Input) error{
		r.handler.gatherSchemas, r.handler.gatherConfigs, r.handler.gatherCredentials, r.handler.gatherProviders,
		func(in *topology.Input) error {
			_,
				err := r.handler.gatherReplicas(in)
			return err
		}, r.handler.gatherRegistered, r.handler.gatherRestore, r.handler.gatherPodSecurity,
	} {
		if err := gather(&in); err != nil {
			return in, err
		}
	}
	return in, nil
}

// Deployments returns the MachineDeployments of a cluster, whatever created them.
func (r *Reader) Deployments(cluster *provv1.Cluster) ([]*clusterv1.MachineDeployment, error) {
	return r.handler.gatherReplicas(&topology.Input{Cluster: cluster})
}

// Rehearse runs the handler once for a cluster. With Deps from a stage (package rehearsal), it only lists what it would
// write.
func Rehearse(ctx context.Context, d Deps, cluster *provv1.Cluster) error {
	h := newHandler(d)
	h.ctx = ctx
	h.clusters.AddIndexer(provv1.IndexByCluster, topology.ByManagementCluster)
	_, err := h.onChange("", cluster) //nolint:contextcheck // the handler has it
	return err
}

// Problems returns the problems that stop the server from making the objects of a cluster. provisioned means that the
// cluster already has a control plane. Problems with safe values in topology do not stop such a cluster, and are
// returned as told.
func Problems(in topology.Input, provisioned bool) (problems, told field.ErrorList) {
	if in.Cluster.Spec.RKEConfig == nil && provisioned {
		return field.ErrorList{field.Required(field.NewPath("spec", "rkeConfig"),
			"it was removed from a cluster that was provisioned with it; put it back, or delete the cluster")}, nil
	}
	errs := topology.Validate(in)
	if !provisioned {
		return errs, nil
	}
	return topology.Tolerated(errs)
}

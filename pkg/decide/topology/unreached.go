package topology

import (
	"fmt"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/naming"
)

const reasonReconciling = "Reconciling"

// Unreached returns condition Reconciling of a cluster that Drover has not reached yet. The first report about a
// provisioned cluster includes it, so that it costs no write of its own.
func Unreached(cluster *provv1.Cluster) conditions.Condition {
	c := conditions.Condition{
		Type: provv1.ConditionReconciling, Status: rkev1.ConditionTrue, Reason: reasonReconciling,
		Message: "Waiting for the agent of the cluster to connect, or for a server to report its kubeconfig",
	}
	if cluster.Spec.RKEConfig == nil {
		c.Message = fmt.Sprintf("Waiting for the agent: in the imported cluster, run the command in status.command of "+
			"ClusterRegistrationToken %s/%s", cluster.Status.ClusterName, naming.DefaultRegistrationToken)
	}
	return c
}

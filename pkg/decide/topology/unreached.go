package topology

import (
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
)

const reasonReconciling = "Reconciling"

// Unreached returns condition Reconciling of a cluster without a kubeconfig. The first report about a cluster includes
// it, so that it costs no write of its own.
func Unreached() conditions.Condition {
	return conditions.Condition{
		Type: provv1.ConditionReconciling, Status: rkev1.ConditionTrue, Reason: reasonReconciling,
		Message: "Waiting for the agent of the cluster to connect, or for a server to report its kubeconfig",
	}
}

package plansecret

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/kube/planstore"
)

// view is a report and the Machine that it belongs to.
type view struct {
	machine *clusterv1.Machine
	state   nodeplan.State
	applied planner.Condition // PlanApplied as the Machine has it now
	// unit is the distribution's systemd unit on the node, "" if the control plane is unreadable.
	unit string
}

// gather reads caches only. It returns nil if the Secret belongs to no cluster of this instance.
func (h *handler) gather(secret *corev1.Secret) (*view, error) {
	machines, err := h.Machines.Cache().GetByIndex(planstore.ByPlanSecret, secret.Namespace+"/"+secret.Name)
	if err != nil {
		return nil, fmt.Errorf("find the machine of plan secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	if len(machines) != 1 {
		return nil, nil
	}
	machine := machines[0]
	cluster := machine.Spec.ClusterName
	provisioning, err := clients.Optional(h.ProvisioningClusters.Get(machine.Namespace, cluster))
	if err != nil {
		return nil, fmt.Errorf("read the cluster: %w", err)
	}
	if !topology.IsOurs(provisioning, h.InstanceID) {
		return nil, nil
	}
	// The planner reports unreadable keys. The readable ones count here.
	state, _ := nodeplan.Parse(secret.Namespace+"/"+secret.Name, secret.Data)
	v := &view{machine: machine, state: state, applied: planstore.ReadCondition(machine, rkev1.ConditionPlanApplied)}
	cp, err := clients.Optional(h.ControlPlanes.Get(machine.Namespace, cluster))
	if err != nil {
		return nil, fmt.Errorf("read the control plane: %w", err)
	}
	if cp != nil {
		v.unit = unitOf(distro.RuntimeOf(cp.Spec.KubernetesVersion), machine.Labels)
	}
	return v, nil
}

func unitOf(runtime distro.Runtime, labels map[string]string) string {
	if labels[rkev1.EtcdRoleLabel] == rkev1.RoleLabelValue ||
		labels[rkev1.ControlPlaneRoleLabel] == rkev1.RoleLabelValue {
		return runtime.ServerUnit()
	}
	return runtime.AgentUnit()
}
